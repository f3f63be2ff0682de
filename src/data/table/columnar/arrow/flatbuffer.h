// FlatBuffers as Arrow's messages have them: tables whose fields are found by number. Every access is checked against the buffer's end.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "src/core/error.h"
#include "src/io/damaged.h"
#include "src/io/file.h"

namespace perigee::tables::arrow {

struct FlatBytes {
  std::span<const std::byte> bytes;
  std::string where;  // of errors
  uint64_t offset = 0;

  [[noreturn]] void damaged(const char* what, size_t at) const {
    throw Error(ErrorKind::data, {.where = where + ": byte " + std::to_string(offset + at), .what = what, .hint = kGetAnew});
  }
  template <class T>
  T at(size_t place) const {
    T value;
    if (place > bytes.size() || bytes.size() - place < sizeof value) damaged("the Arrow metadata lead out of their message", place);
    std::memcpy(&value, bytes.data() + place, sizeof value);
    return value;
  }
};

class FlatTable;

// Elements are structs or offsets of `width` bytes.
struct FlatVector {
  const FlatBytes* in = nullptr;
  size_t begin = 0, count = 0, width = 0;
  template <class T>
  T at(size_t number, size_t inside = 0) const {
    return in->at<T>(begin + number * width + inside);
  }
  FlatTable table(size_t number) const;
};

class FlatTable {
 public:
  FlatTable() = default;
  FlatTable(const FlatBytes& in, size_t place) : in_(&in), place_(place) {
    const auto back = in.at<int32_t>(place);
    const int64_t table = static_cast<int64_t>(place) - back;
    if (table < 0) in.damaged("the Arrow metadata have a table before their message", place);
    fields_ = static_cast<size_t>(table);
    size_ = in.at<uint16_t>(fields_);
  }
  static FlatTable root(const FlatBytes& in) { return FlatTable(in, in.at<uint32_t>(0)); }

  bool has(size_t field) const { return place(field) != 0; }
  template <class T>
  T number(size_t field, T fallback) const {
    const size_t found = place(field);
    return found == 0 ? fallback : in_->at<T>(found);
  }
  FlatTable table(size_t field) const { return FlatTable(*in_, target(field)); }
  std::string_view text(size_t field) const {
    if (!has(field)) return {};
    const FlatVector found = vector(field, 1);
    return as_text(in_->bytes.subspan(found.begin, found.count));
  }
  // Empty where there is none.
  FlatVector vector(size_t field, size_t width) const {
    if (!has(field)) return {in_, 0, 0, width};
    const size_t found = target(field);
    const size_t count = in_->at<uint32_t>(found);
    if (count > (in_->bytes.size() - found - 4) / width) in_->damaged("the Arrow metadata have a list that leads out of them", found);
    return {in_, found + 4, count, width};
  }

 private:
  size_t place(size_t field) const {
    if (in_ == nullptr || 6 + 2 * field > size_) return 0;
    const auto found = in_->at<uint16_t>(fields_ + 4 + 2 * field);
    return found == 0 ? 0 : place_ + found;
  }
  size_t target(size_t field) const {
    const size_t found = place(field);
    if (found == 0) in_->damaged("the Arrow metadata lack a part", place_);
    return found + in_->at<uint32_t>(found);
  }
  const FlatBytes* in_ = nullptr;
  size_t place_ = 0, fields_ = 0, size_ = 0;
};

inline FlatTable FlatVector::table(size_t number) const {
  const size_t place = begin + number * width;
  return FlatTable(*in, place + in->at<uint32_t>(place));
}

}  // namespace perigee::tables::arrow
