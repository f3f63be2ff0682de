#include "src/data/table/columnar/arrow/arrow_values.h"

#include <algorithm>
#include <limits>

#include "src/data/table/columnar/arrow/arrow_numbers.h"
#include "src/data/table/columnar/columnar.h"
#include "src/io/codec/blocks.h"
#include "src/io/codec/zstd.h"

namespace perigee::tables::arrow {
namespace {

using ArrowValuesSpan = std::span<const std::byte>;

}  // namespace

BatchReader::BatchReader(const FlatBytes& metadata, const FlatTable& batch, int16_t version, ArrowValuesSpan body, const std::string& where,
                         uint64_t offset, uint64_t file_bytes, uint64_t most)
    : metadata_(&metadata),
      version_(version),
      body_(body),
      where_(where),
      offset_(offset),
      file_bytes_(file_bytes),
      most_(most),
      left_(most) {
  rows_ = batch.number<int64_t>(0, 0);
  nodes_ = batch.vector(1, 16);
  buffers_ = batch.vector(2, 16);
  variadic_ = batch.vector(4, 8);
  if (batch.has(3)) codec_ = batch.table(3).number<int8_t>(0, 0);
  if (codec_ > 1) damaged("the Arrow batch has a compression that there is not");
  if (rows_ < 0 || rows_ > most_rows(file_bytes)) damaged("the Arrow batch has far more rows than its bytes can have");
}

void BatchReader::damaged(const char* what, const char* hint) const {
  throw Error(ErrorKind::data, {.where = where_ + ": body at byte " + std::to_string(offset_), .what = what, .hint = hint});
}

void BatchReader::hold(uint64_t bytes) {
  if (bytes > left_) damaged("the Arrow batch has a column that is far larger than a file of this size would have; write smaller batches");
  left_ -= bytes;
}

BatchReader::Node BatchReader::node(const ArrowField& /*field*/) {
  if (next_node_ >= nodes_.count) damaged("the Arrow batch has fewer columns than its schema");
  const Node found{nodes_.at<int64_t>(next_node_), nodes_.at<int64_t>(next_node_, 8)};
  ++next_node_;
  if (found.rows < 0 || found.rows > most_rows(file_bytes_)) damaged("the Arrow batch has a column of a length out of range");
  return found;
}

ArrowValuesSpan BatchReader::buffer(Bytes& memory, uint64_t least) {
  if (next_buffer_ >= buffers_.count) damaged("the Arrow batch has fewer buffers than its columns need");
  const auto begin = buffers_.at<int64_t>(next_buffer_), size = buffers_.at<int64_t>(next_buffer_, 8);
  ++next_buffer_;
  if (begin < 0 || size < 0 || static_cast<uint64_t>(begin) > body_.size() ||
      static_cast<uint64_t>(size) > body_.size() - static_cast<uint64_t>(begin))
    damaged("a buffer of the Arrow batch leads out of its body");
  ArrowValuesSpan bytes = body_.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
  if (codec_ >= 0 && !bytes.empty()) {
    if (bytes.size() < 8) damaged("a compressed buffer of the Arrow batch has no size");
    const auto plain = value_at<int64_t>(bytes, 0);
    bytes = bytes.subspan(8);
    if (plain != -1) {
      if (plain < 0) damaged("a buffer of the Arrow batch has a negative size");
      hold(static_cast<uint64_t>(plain));
      memory.resize(static_cast<size_t>(plain));
      const std::string where = where_ + ": body at byte " + std::to_string(offset_);
      if (plain > 0) codec_ == 0 ? lz4_frame_decompress(bytes, memory, where) : zstd_decompress(bytes, memory, where);
      bytes = memory;
    }
  }
  if (bytes.size() < least) damaged("a buffer of the Arrow batch has fewer bytes than its rows need");
  return bytes;
}

void BatchReader::read_missing(const Node& node, Column& column) {
  Bytes memory;
  const ArrowValuesSpan bits = buffer(memory, 0);
  const auto rows = static_cast<uint64_t>(node.rows);
  if (node.missing == 0 || (bits.empty() && rows > 0 && node.missing <= 0)) return;
  if (bits.size() < (rows + 7) / 8) damaged("a buffer of the Arrow batch has fewer bytes than its rows need");
  hold(rows);
  column.missing.resize(rows);
  for (size_t r = 0; r < rows; ++r) column.missing[r] = (std::to_integer<unsigned>(bits[r / 8]) >> (r % 8) & 1) == 0;
}

void BatchReader::read_numbers(const ArrowField& field, int64_t rows, Column& column) {
  Bytes memory;
  hold(8 * static_cast<uint64_t>(rows));
  const ArrowValuesSpan bytes = buffer(memory, (static_cast<uint64_t>(rows) * width_of(field) + 7) / 8);
  if (column.type == Type::real) {
    column.real.resize(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r)
      column.real[static_cast<size_t>(r)] =
          field.kind == Kind::decimal ? decimal_at(bytes, field.width, field.scale, r) : real_at(bytes, field.width, r);
    for (size_t r = 0; r < column.missing.size(); ++r)
      if (column.missing[r] != 0) column.real[r] = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  column.whole.resize(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    int64_t& value = column.whole[static_cast<size_t>(r)];
    if (column.is_missing(r)) value = 0;
    else if (field.kind == Kind::boolean) value = std::to_integer<int64_t>(bytes[static_cast<size_t>(r) / 8] >> (r % 8)) & 1;
    else value = whole_at(bytes, static_cast<int64_t>(width_of(field)), field.is_signed, r);
    if (column.type == Type::time && !column.is_missing(r)) value = milliseconds_of(field, value);
    if (!field.is_signed && value < 0)
      damaged("the Arrow batch has an unsigned number beyond 2^63, which a column cannot have", "write it as text, or as float64");
  }
}

void BatchReader::add_text(Column& column, ArrowValuesSpan bytes, int64_t begin, int64_t end) const {
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > bytes.size())
    damaged("the Arrow batch has a text that leads out of its buffer");
  column.bytes += as_text(bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  column.ends.push_back(column.bytes.size());
}

template <class SizeOf>
void BatchReader::reserve_text(Column& column, int64_t rows, SizeOf size_of) {
  uint64_t whole = 0;
  for (int64_t r = 0; r < rows; ++r) {
    whole += size_of(r);
    if (whole > left_) break;  // hold() refuses it
  }
  hold(whole);
  column.bytes.reserve(whole);
}

void BatchReader::read_texts(const ArrowField& field, int64_t rows, Column& column) {
  Bytes first, second;
  hold(8 * static_cast<uint64_t>(rows));
  column.ends.reserve(static_cast<size_t>(rows));
  if (field.kind == Kind::fixed_binary) {
    const ArrowValuesSpan bytes = buffer(first, static_cast<uint64_t>(rows) * static_cast<uint64_t>(field.width));
    hold(static_cast<uint64_t>(rows) * static_cast<uint64_t>(field.width));
    column.bytes.reserve(static_cast<size_t>(rows) * static_cast<size_t>(field.width));
    for (int64_t r = 0; r < rows; ++r)
      add_text(column, bytes, column.is_missing(r) ? 0 : r * field.width, column.is_missing(r) ? 0 : (r + 1) * field.width);
    return;
  }
  const int64_t width = field.kind == Kind::large_binary || field.kind == Kind::large_utf8 ? 64 : 32;
  const ArrowValuesSpan ends = buffer(first, rows == 0 ? 0 : static_cast<uint64_t>(rows + 1) * static_cast<uint64_t>(width / 8));
  const ArrowValuesSpan bytes = buffer(second, 0);
  const auto size_of = [&](int64_t r) -> uint64_t {
    const int64_t size = column.is_missing(r) ? 0 : whole_at(ends, width, true, r + 1) - whole_at(ends, width, true, r);
    return size > 0 ? static_cast<uint64_t>(size) : 0;
  };
  reserve_text(column, rows, size_of);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = whole_at(ends, width, true, r), end = whole_at(ends, width, true, r + 1);
    add_text(column, bytes, column.is_missing(r) ? 0 : begin, column.is_missing(r) ? 0 : end);
  }
}

// 16 bytes each: the length, then the text itself, or its first four bytes, a buffer and a place there.
void BatchReader::read_views(int64_t rows, Column& column) {
  Bytes memory;
  hold(8 * static_cast<uint64_t>(rows));
  column.ends.reserve(static_cast<size_t>(rows));
  const ArrowValuesSpan views = buffer(memory, static_cast<uint64_t>(rows) * 16);
  const int64_t count = next_view_ < variadic_.count ? variadic_.at<int64_t>(next_view_++) : 0;
  if (count < 0 || static_cast<uint64_t>(count) > buffers_.count) damaged("the Arrow batch has fewer buffers than its columns need");
  hold(static_cast<uint64_t>(count) * (sizeof(Bytes) + sizeof(ArrowValuesSpan)));
  std::vector<Bytes> memories(static_cast<size_t>(count));
  std::vector<ArrowValuesSpan> buffers;
  for (Bytes& each : memories) buffers.push_back(buffer(each, 0));
  reserve_text(column, rows, [&](int64_t r) -> uint64_t {
    const auto size = column.is_missing(r) ? 0 : value_at<int32_t>(views, 4 * r);
    return size > 0 ? static_cast<uint64_t>(size) : 0;
  });
  for (int64_t r = 0; r < rows; ++r) {
    if (column.is_missing(r)) {
      add_text(column, {}, 0, 0);
      continue;
    }
    const auto size = value_at<int32_t>(views, 4 * r), number = value_at<int32_t>(views, 4 * r + 2),
               place = value_at<int32_t>(views, 4 * r + 3);
    if (size <= 12) add_text(column, views, 16 * r + 4, 16 * r + 4 + size);
    else if (number < 0 || number >= count) damaged("the Arrow batch has a text in a buffer that there is not");
    else add_text(column, buffers[static_cast<size_t>(number)], place, int64_t{place} + size);
  }
}

void BatchReader::read_list(const ArrowField& field, int64_t rows, Column& column) {
  Bytes memory;
  const int64_t width = field.kind == Kind::large_list ? 64 : 32;
  ArrowValuesSpan ends;
  if (field.kind != Kind::fixed_list)
    ends = buffer(memory, rows == 0 ? 0 : static_cast<uint64_t>(rows + 1) * static_cast<uint64_t>(width / 8));
  const ArrowField& item = field.children[0];
  const Column items = column_of(item);
  hold(8 * static_cast<uint64_t>(rows));
  column.ends.reserve(static_cast<size_t>(rows));
  hold(8 * static_cast<uint64_t>(items.size()));
  column.items.reserve(static_cast<size_t>(items.size()));
  for (int64_t r = 0; r < rows; ++r) {
    const bool fixed = field.kind == Kind::fixed_list;
    int64_t begin = fixed ? r * field.width : whole_at(ends, width, true, r),
            end = fixed ? begin + field.width : whole_at(ends, width, true, r + 1);
    if (column.is_missing(r)) begin = end = 0;
    if (begin < 0 || end < begin || end > items.size()) damaged("the Arrow batch has a list that leads out of its elements");
    for (int64_t i = begin; i < end; ++i) column.items.push_back(items.number(i));
    column.ends.push_back(column.items.size());
  }
}

Column BatchReader::column(const ArrowField& field) {
  left_ = most_;
  return column_of(field);
}

Column BatchReader::column_of(const ArrowField& field) {
  const Node found = node(field);
  Column column(field.type);
  if (field.kind == Kind::null) {
    hold(2 * kCellBytes * static_cast<uint64_t>(found.rows));
    for (int64_t r = 0; r < found.rows; ++r) column.add_missing();
    return column;
  }
  read_missing(found, column);
  if (column.type == Type::list) read_list(field, found.rows, column);
  else if (is_view(field.kind)) read_views(found.rows, column);
  else if (column.type == Type::text) read_texts(field, found.rows, column);
  else read_numbers(field, found.rows, column);
  return column;
}

std::vector<int64_t> BatchReader::places(const ArrowField& field) {
  left_ = most_;
  const Node found = node(field);
  hold(8 * static_cast<uint64_t>(found.rows));
  Column missing(Type::integer);
  read_missing(found, missing);
  if (field.index_width != 8 && field.index_width != 16 && field.index_width != 32 && field.index_width != 64)
    damaged("the Arrow file has places of an odd size");
  Bytes memory;
  const ArrowValuesSpan bytes = buffer(memory, static_cast<uint64_t>(found.rows) * static_cast<uint64_t>(field.index_width / 8));
  std::vector<int64_t> places(static_cast<size_t>(found.rows));
  for (int64_t r = 0; r < found.rows; ++r) {
    const int64_t place = missing.is_missing(r) ? -1 : whole_at(bytes, field.index_width, field.index_signed, r);
    if (place < 0 && !missing.is_missing(r)) damaged("the Arrow batch has a place before its dictionary");
    places[static_cast<size_t>(r)] = place;
  }
  return places;
}

void BatchReader::skip(const ArrowField& field) {
  node(field);
  next_buffer_ += buffers_of(field, version_);
  if (field.dictionary >= 0) return;
  if (is_view(field.kind) && next_view_ < variadic_.count)
    next_buffer_ += static_cast<size_t>(std::clamp<int64_t>(variadic_.at<int64_t>(next_view_++), 0, 1 << 30));
  for (const ArrowField& child : field.children) skip(child);
}

}  // namespace perigee::tables::arrow
