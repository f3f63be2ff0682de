#include "src/data/table/spill/chunk_store.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/io/file.h"

namespace perigee::tables {
namespace {

template <class T>
void append_values(const T& values, Bytes& out) {
  const auto bytes = std::as_bytes(std::span(values.data(), values.size()));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Bytes that were read, one list of values after another.
class ValueReader {
 public:
  explicit ValueReader(std::span<const std::byte> from) : from_(from) {}
  template <class T>
  void take(T& values, uint64_t count) {
    values.resize(count);
    const size_t size = count * sizeof(values[0]);
    if (size > 0) std::memcpy(values.data(), from_.data(), size);
    from_ = from_.subspan(size);
  }

 private:
  std::span<const std::byte> from_;
};

template <class T>
void append_list(std::vector<T>& to, std::vector<T>&& from) {
  if (to.empty()) to = std::move(from);
  else to.insert(to.end(), from.begin(), from.end());
}

// A later chunk may know more categories, behind those that are known.
void take_categories(TableSchema& schema, const TableSchema& later) {
  for (size_t c = 0; c < schema.columns.size(); ++c)
    if (later.columns[c].categories.size() > schema.columns[c].categories.size())
      schema.columns[c].categories = later.columns[c].categories;
}

}  // namespace

uint64_t bytes_of(const Frame& frame) {
  uint64_t bytes = 8 * (frame.sequences.size() + frame.numbers.size());
  for (const Column& c : frame.columns)
    bytes += 8 * (c.whole.size() + c.real.size() + c.ends.size() + c.items.size()) + c.bytes.size() + c.missing.size();
  return bytes;
}

void append_chunk(Frame& frame, Frame&& other) {
  if (frame.columns.empty()) {
    frame = std::move(other);
    return;
  }
  take_categories(frame.schema, other.schema);
  const int64_t before = frame.rows;
  for (size_t c = 0; c < frame.columns.size(); ++c) {
    frame.columns[c].append(other.columns[c]);
    other.columns[c] = Column();  // both at once would be twice the memory
  }
  frame.rows += other.rows;
  append_list(frame.numbers, std::move(other.numbers));
  for (size_t s = 1; s < other.sequences.size(); ++s) frame.sequences.push_back(before + other.sequences[s]);
}

Frame rows_of(const Frame& frame, int64_t begin, int64_t end) {
  std::vector<int64_t> which(static_cast<size_t>(end - begin));
  std::iota(which.begin(), which.end(), begin);
  Frame piece{.schema = frame.schema, .rows = end - begin};
  for (const Column& column : frame.columns) piece.columns.push_back(column.rows(which));
  if (!frame.numbers.empty()) piece.numbers.assign(frame.numbers.begin() + begin, frame.numbers.begin() + end);
  return piece;
}

void ChunkStore::add(const Frame& frame) {
  if (chunks_.empty()) schema_ = frame.schema;
  else take_categories(schema_, frame.schema);
  Chunk chunk{.rows = frame.rows, .sequences = frame.sequences.size(), .numbers = frame.numbers.size()};
  Bytes bytes;
  bytes.reserve(bytes_of(frame));
  append_values(frame.sequences, bytes);
  append_values(frame.numbers, bytes);
  gaps_.resize(frame.columns.size());
  for (size_t c = 0; c < frame.columns.size(); ++c) {
    const Column& column = frame.columns[c];
    chunk.parts.push_back({.whole = column.whole.size(),
                           .real = column.real.size(),
                           .ends = column.ends.size(),
                           .bytes = column.bytes.size(),
                           .items = column.items.size(),
                           .missing = column.missing.size()});
    append_values(column.whole, bytes);
    append_values(column.real, bytes);
    append_values(column.ends, bytes);
    append_values(column.items, bytes);
    append_values(column.bytes, bytes);
    append_values(column.missing, bytes);
    gaps_[c] |= !column.missing.empty();
  }
  chunk.at = file_->append(bytes);
  chunk.size = bytes.size();
  rows_ += frame.rows;
  bytes_ += bytes.size();
  chunks_.push_back(std::move(chunk));
}

Frame ChunkStore::read(size_t number) const {
  std::vector<size_t> all(schema_.columns.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return read(number, all);
}

Frame ChunkStore::read(size_t number, const std::vector<size_t>& columns) const {
  const Chunk& chunk = chunks_[number];
  Frame frame{.rows = chunk.rows};
  Bytes bytes(8 * (chunk.sequences + chunk.numbers));
  file_->read(chunk.at, bytes);
  ValueReader head(bytes);
  head.take(frame.sequences, chunk.sequences);
  head.take(frame.numbers, chunk.numbers);
  uint64_t at = chunk.at + bytes.size();
  size_t next = 0;
  for (size_t c = 0; c < chunk.parts.size() && next < columns.size(); ++c) {
    const Part& part = chunk.parts[c];
    if (columns[next] == c) {
      bytes.resize(part.size());
      file_->read(at, bytes);
      ValueReader values(bytes);
      Column column(schema_.columns[c].type);
      values.take(column.whole, part.whole);
      values.take(column.real, part.real);
      values.take(column.ends, part.ends);
      values.take(column.items, part.items);
      values.take(column.bytes, part.bytes);
      values.take(column.missing, part.missing);
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.push_back(std::move(column));
      ++next;
    }
    at += part.size();
  }
  return frame;
}

Frame ChunkStore::take(size_t number) {
  Frame frame = read(number);
  file_->release(chunks_[number].at, chunks_[number].size);
  chunks_[number].taken = true;
  return frame;
}

void ChunkStore::clear() {
  for (const Chunk& chunk : chunks_)
    if (!chunk.taken) file_->release(chunk.at, chunk.size);
  chunks_.clear();
  rows_ = 0;
  bytes_ = 0;
}

}  // namespace perigee::tables
