// Chunks of a table on the disk: each column's values as they are in memory, so that to read one is to copy it. What is read often lies in the
// system's page cache; it counts as memory of this process only while a chunk is read, which mapped pages would not let us say.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/data/table/frame.h"
#include "src/data/table/spill/scratch_file.h"

namespace perigee::tables {

// The memory of a frame's values.
uint64_t bytes_of(const Frame& frame);
// Rows and sequences of `other` behind those of `frame`, of the same schema; unlike Frame::append() with their numbers.
void append_chunk(Frame& frame, Frame&& other);
// Rows begin .. end as a table of its own, without sequences.
Frame rows_of(const Frame& frame, int64_t begin, int64_t end);
// A first piece of a frame, of whole sequences where it has some, has at most about so many bytes; calls `use` with the pieces. Frees them on the way.
template <class F>
void each_piece(Frame&& frame, uint64_t bytes, F use);

class ChunkStore {
 public:
  explicit ChunkStore(std::shared_ptr<ScratchFile> file) : file_(std::move(file)) {}
  void add(const Frame& frame);
  // All columns, or those that are numbered; the others are left out of the frame.
  Frame read(size_t chunk) const;
  Frame read(size_t chunk, const std::vector<size_t>& columns) const;
  // Reads it for the last time.
  Frame take(size_t chunk);
  // The chunks that have not been taken are not needed either.
  void clear();
  size_t size() const { return chunks_.size(); }
  int64_t rows() const { return rows_; }
  int64_t rows_of(size_t chunk) const { return chunks_[chunk].rows; }
  uint64_t bytes() const { return bytes_; }
  const TableSchema& schema() const { return schema_; }
  // Whether a chunk has a list of gaps in this column, as the whole table would have.
  bool has_gaps(size_t column) const { return column < gaps_.size() && gaps_[column] != 0; }

 private:
  struct Part {
    uint64_t whole = 0, real = 0, ends = 0, bytes = 0, items = 0, missing = 0;  // how many of each
    uint64_t size() const { return 8 * (whole + real + ends + items) + bytes + missing; }
  };
  struct Chunk {
    uint64_t at = 0, size = 0;
    int64_t rows = 0;
    uint64_t sequences = 0, numbers = 0;
    std::vector<Part> parts;
    bool taken = false;
  };

  std::shared_ptr<ScratchFile> file_;
  std::vector<Chunk> chunks_;
  std::vector<uint8_t> gaps_;
  TableSchema schema_;
  int64_t rows_ = 0;
  uint64_t bytes_ = 0;
};

template <class F>
void each_piece(Frame&& frame, uint64_t bytes, F use) {
  const uint64_t whole = bytes_of(frame);
  if (whole <= bytes || frame.rows < 2) return use(std::move(frame));
  const auto most =
      std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(frame.rows) / static_cast<double>(whole) * static_cast<double>(bytes)));
  const bool has_sequences = !frame.sequences.empty();
  for (int64_t begin = 0, s = 0; begin < frame.rows;) {
    int64_t end = std::min(frame.rows, begin + most);
    std::vector<int64_t> sequences;
    if (has_sequences) {
      sequences.push_back(0);
      // At least one sequence, and empty ones with those before.
      const auto count = static_cast<int64_t>(frame.sequences.size()) - 1;
      do sequences.push_back(frame.sequences[static_cast<size_t>(++s)] - begin);
      while (s < count && (frame.sequences[static_cast<size_t>(s + 1)] <= end || sequences.back() == 0));
      end = begin + sequences.back();
    }
    Frame piece = rows_of(frame, begin, end);
    piece.sequences = std::move(sequences);
    use(std::move(piece));
    begin = end;
  }
}

}  // namespace perigee::tables
