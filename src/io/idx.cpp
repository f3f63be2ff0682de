#include "src/io/idx.h"

#include <cstdio>
#include <cstring>
#include <optional>

#include "src/core/error.h"

namespace perigee {
namespace {

struct Element {
  unsigned code;
  size_t bytes;
  Dtype dtype;
};
constexpr Element kElements[] = {{0x08, 1, Dtype::u8},  {0x09, 1, Dtype::i32}, {0x0B, 2, Dtype::i32},
                                 {0x0C, 4, Dtype::i32}, {0x0D, 4, Dtype::f32}, {0x0E, 8, Dtype::f64}};

uint64_t idx_big_endian(const std::byte* p, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | std::to_integer<uint64_t>(p[i]);
  return value;
}

[[noreturn]] void fail_idx(const std::string& where, std::string what, std::string got = "", std::string expected = "") {
  throw Error(ErrorKind::data, {.where = where, .what = std::move(what), .got = std::move(got), .expected = std::move(expected)});
}

std::shared_ptr<const Bytes> to_native(std::span<const std::byte> data, const Element& element, size_t count) {
  const size_t wide = dtype_bytes(element.dtype);
  auto out = std::make_shared<Bytes>(count * wide);
  for (size_t i = 0; i < count; ++i) {
    uint64_t value = idx_big_endian(data.data() + i * element.bytes, element.bytes);
    if (element.code == 0x09) value = static_cast<uint64_t>(static_cast<int8_t>(value));
    if (element.code == 0x0B) value = static_cast<uint64_t>(static_cast<int16_t>(value));
    std::memcpy(out->data() + i * wide, &value, wide);  // little-endian host: the low bytes come first
  }
  return out;
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> content, const std::string& where) {
  if (content.size() < 4)
    fail_idx(where, "the file is cut short at byte " + std::to_string(content.size()), "", "an IDX header of 4 bytes");
  const auto magic = static_cast<unsigned>(idx_big_endian(content.data(), 4));
  const Element* element = nullptr;
  for (const auto& known : kElements)
    if (magic >> 8 == known.code) element = &known;
  const size_t rank = magic & 0xff;
  if (element == nullptr || rank == 0 || rank > static_cast<size_t>(kMaxRank)) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", magic);
    fail_idx(where, "the magic number at byte 0 is not IDX", text, "0x00000803 for images of bytes, 0x00000801 for labels");
  }
  const size_t header = 4 + 4 * rank;
  if (content.size() < header)
    fail_idx(where, "the file is cut short at byte " + std::to_string(content.size()), "",
             "an IDX header of " + std::to_string(header) + " bytes");
  std::vector<int64_t> dims(rank);
  for (size_t i = 0; i < rank; ++i) dims[i] = static_cast<int64_t>(idx_big_endian(content.data() + 4 + 4 * i, 4));
  const std::optional<int64_t> counted = count_elements(dims);
  if (!counted) fail_idx(where, "the dimensions at byte 4 are too large");
  const auto count = static_cast<uint64_t>(*counted);
  const uint64_t expected = header + count * element->bytes;
  if (content.size() != expected)
    fail_idx(where,
             content.size() < expected ? "the file is cut short at byte " + std::to_string(content.size())
                                       : "something follows the data at byte " + std::to_string(expected),
             std::to_string(content.size()) + " bytes", std::to_string(expected) + " for " + Shape(dims).text());
  IdxArray array{element->dtype, Shape(dims), content.subspan(header), nullptr};
  if (element->code != 0x08) {
    array.owned = to_native(array.data, *element, count);
    array.data = *array.owned;
  }
  return array;
}

}  // namespace perigee
