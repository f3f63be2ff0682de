// The columns of one record batch, in the order of the schema.
#pragma once

#include "src/data/table/columnar/arrow/arrow_schema.h"
#include "src/io/damaged.h"

namespace perigee::tables::arrow {

class BatchReader {
 public:
  // `batch` is a RecordBatch; `body` what follows its message, at `offset` of a file of `file_bytes`. A column takes at most `most`
  // bytes, with what of it is decompressed.
  BatchReader(const FlatBytes& metadata, const FlatTable& batch, int16_t version, std::span<const std::byte> body, const std::string& where,
              uint64_t offset, uint64_t file_bytes, uint64_t most);

  int64_t rows() const { return rows_; }
  // The next field. Error(data) for what does not lie in the body.
  Column column(const ArrowField& field);
  // The places in a dictionary that the next field has; -1: missing.
  std::vector<int64_t> places(const ArrowField& field);
  void skip(const ArrowField& field);

 private:
  struct Node {
    int64_t rows = 0, missing = 0;
  };
  Column column_of(const ArrowField& field);
  void hold(uint64_t bytes);
  Node node(const ArrowField& field);
  // The next buffer, decompressed into `memory` where it is compressed; `least` bytes at least.
  std::span<const std::byte> buffer(Bytes& memory, uint64_t least);
  void read_missing(const Node& node, Column& column);
  void read_numbers(const ArrowField& field, int64_t rows, Column& column);
  void read_texts(const ArrowField& field, int64_t rows, Column& column);
  void read_views(int64_t rows, Column& column);
  void read_list(const ArrowField& field, int64_t rows, Column& column);
  // Room for the sum of what `size_of` says of each row.
  template <class SizeOf>
  void reserve_text(Column& column, int64_t rows, SizeOf size_of);
  void add_text(Column& column, std::span<const std::byte> bytes, int64_t begin, int64_t end) const;
  [[noreturn]] void damaged(const char* what, const char* hint = kGetAnew) const;

  const FlatBytes* metadata_;
  FlatVector nodes_, buffers_, variadic_;
  int64_t rows_ = 0;
  int16_t version_;
  int codec_ = -1;
  std::span<const std::byte> body_;
  std::string where_;
  uint64_t offset_, file_bytes_, most_, left_;
  size_t next_node_ = 0, next_buffer_ = 0, next_view_ = 0;
};

}  // namespace perigee::tables::arrow
