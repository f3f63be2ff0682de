#include "cluster/data/record.h"

#include <cassert>
#include <cstring>

namespace perigee {

RecordLayout::RecordLayout(const std::vector<Field>& fields) {
  constexpr size_t kAlign = 8;  // of the largest element: sources write numbers straight into a record
  for (const Field& field : fields) {
    const auto elements = static_cast<uint64_t>(field.shape.elements());
    if (elements > kMaxRecordBytes / dtype_bytes(field.dtype) || bytes_ + elements * dtype_bytes(field.dtype) > kMaxRecordBytes)
      throw Error(ErrorKind::resources, {.where = "field '" + field.name + "'",
                                         .what = "an example is too large to be sent to workers",
                                         .got = Type{field.dtype, field.shape}.text(),
                                         .expected = "at most " + std::to_string(kMaxRecordBytes) + " bytes",
                                         .hint = "data.at = \"worker\": let the workers read the data themselves"});
    offsets_.push_back(bytes_);
    sizes_.push_back(elements * dtype_bytes(field.dtype));
    bytes_ += (sizes_.back() + kAlign - 1) / kAlign * kAlign;
  }
  assert(bytes_ % kAlign == 0);
}

void RecordLayout::unpack(const std::byte* record, std::span<std::byte* const> slots) const {
  assert(slots.size() == offsets_.size());
  for (size_t i = 0; i < offsets_.size(); ++i) std::memcpy(slots[i], record + offsets_[i], sizes_[i]);
}

}  // namespace perigee
