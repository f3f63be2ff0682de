#include "src/train/device/resident_data.h"

#include "src/tensor/bytes.h"

#include <algorithm>

namespace perigee {
namespace {

constexpr size_t kStaged = size_t{16} << 20;  // bytes that are read before they are uploaded

}  // namespace

std::unique_ptr<ResidentData> ResidentData::load(Gpu& gpu, const DataSource& source, std::span<const int> fields, uint64_t seed,
                                                 size_t room) {
  if (const SourceTraits traits = source.traits(); !traits.fixed || traits.live) return nullptr;
  const std::vector<Field>& all = source.fields();
  const auto size = static_cast<size_t>(source.size());
  size_t bytes = 0, widest = 1;
  for (const Field& field : all) widest += byte_size(field);
  for (const int field : fields) bytes += size * byte_size(all[static_cast<size_t>(field)]);
  if (bytes > std::min(room, gpu.free_bytes() / 2)) return nullptr;

  auto data = std::make_unique<ResidentData>();
  for (const int field : fields) {
    const size_t row = byte_size(all[static_cast<size_t>(field)]);
    data->columns_.push_back({row, gpu.allocate(size * row, "the data set")});
  }
  const size_t rows = std::clamp<size_t>(kStaged / widest, 1, std::max<size_t>(size, 1));
  std::vector<std::vector<std::byte>> staged;
  for (const Field& field : all) staged.emplace_back(rows * byte_size(field));
  std::vector<std::byte*> slots(all.size());
  for (size_t begin = 0; begin < size; begin += rows) {
    const size_t count = std::min(rows, size - begin);
    for (size_t i = 0; i < count; ++i) {
      for (size_t f = 0; f < all.size(); ++f) slots[f] = staged[f].data() + i * byte_size(all[f]);
      source.read({.index = static_cast<int64_t>(begin + i), .epoch = 0, .seed = seed}, slots);
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const Column& column = data->columns_[i];
      gpu.upload(column.values.data() + begin * column.row_bytes, staged[static_cast<size_t>(fields[i])].data(), count * column.row_bytes);
    }
  }
  return data;
}

void ResidentData::gather(Gpu& gpu, const int64_t* ids, int64_t n, std::span<std::byte* const> to, CudaQueue& queue) const {
  CudaGatherCall call{.rows = ids, .n = n};
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (to[i]) call.fields[call.count++] = {columns_[i].values.data(), to[i], static_cast<int64_t>(columns_[i].row_bytes)};
    if (call.count < kGatherFields && i + 1 < columns_.size()) continue;
    gpu.module().steps->gather(call, queue);
    call.count = 0;
  }
}

size_t ResidentData::bytes() const {
  size_t sum = 0;
  for (const Column& column : columns_) sum += column.values.bytes();
  return sum;
}

}  // namespace perigee
