// One example as a run of bytes: its fields one after the other, each from a multiple of 8 on, and as many records in a row. Numbers lie
// in it as in memory (little-endian).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/data/source.h"

namespace perigee {

class RecordLayout {
 public:
  RecordLayout() = default;
  // Error(resources) when a record would be larger than kMaxRecordBytes.
  explicit RecordLayout(const std::vector<Field>& fields);

  static constexpr size_t kMaxRecordBytes = size_t{1} << 30;

  size_t bytes() const { return bytes_; }  // of one record
  size_t fields() const { return offsets_.size(); }
  // Where the fields of the record at `record` are.
  void slots(std::byte* record, std::span<std::byte*> slots) const {
    for (size_t i = 0; i < offsets_.size(); ++i) slots[i] = record + offsets_[i];
  }
  void unpack(const std::byte* record, std::span<std::byte* const> slots) const;

 private:
  std::vector<size_t> offsets_, sizes_;
  size_t bytes_ = 0;
};

}  // namespace perigee
