// A table on the disk in parts by its keys: rows with equal keys are in one part, in their order. What is larger than the memory as a whole is
// computed part by part.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/table/spill/chunk_store.h"
#include "src/data/table/spill/frame_sink.h"

namespace perigee::tables {

class KeyParts {
 public:
  static constexpr size_t kCount = 64;
  // `level`: rows of one part of a level are in several parts of the next.
  KeyParts(const TableRoom& room, const std::shared_ptr<ScratchFile>& file, unsigned level);
  void add(const Frame& frame, const std::vector<size_t>& keys);
  // The rows that are still held go to the disk. Parts may be empty.
  std::vector<ChunkStore>& finish();

 private:
  void write(size_t part);
  uint64_t most_bytes_;
  unsigned level_;
  std::vector<ChunkStore> parts_;
  std::vector<Frame> held_;
  std::vector<uint64_t> held_bytes_;
};

// Reads a part in frames of at most about so many bytes.
void each_batch(const ChunkStore& part, uint64_t bytes, const UseFrame& use);
// Writes a frame in chunks of a run.
void add_run(ChunkStore& run, Frame&& frame, const TableRoom& room);

// A step that computes each part by itself: rows go in with their numbers, as a last column; each part makes runs, sorted by the number that the last
// column of the result has, and the runs are merged.
class PartsSink : public FrameSink {
 public:
  PartsSink(const TableRoom& room, UseFrame next);
  void add(Frame&& frame) override;
  void finish() override;

 protected:
  // The keys' columns of the first chunk; what a step does not need may be taken out of each.
  virtual std::vector<size_t> keys_of(const Frame& frame) = 0;
  virtual void reduce(Frame& /*frame*/) const {}
  // Computes a part, from any thread. False: it needs more memory than room().part(), and the part is cut further; `must`: it cannot be.
  virtual bool compute(const ChunkStore& part, bool must, ChunkStore& run) = 0;
  virtual void give(Frame&& frame, const UseFrame& next) { next(std::move(frame)); }
  const TableRoom& room() const { return mine_; }  // of a thread
  const std::vector<size_t>& keys() const { return keys_; }
  const std::shared_ptr<ScratchFile>& file() const { return file_; }

 private:
  void compute_part(ChunkStore&& part, unsigned level, std::vector<ChunkStore>& runs);

  TableRoom all_, mine_;
  UseFrame next_;
  std::shared_ptr<ScratchFile> file_;
  KeyParts parts_;
  std::vector<size_t> keys_;
  bool has_keys_ = false;
  int64_t rows_ = 0;
};

}  // namespace perigee::tables
