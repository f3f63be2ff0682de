// Runs of sorted rows on the disk, and their merging. Equal rows keep the order of their runs, so that a sort by runs is stable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/table/spill/chunk_store.h"
#include "src/data/table/spill/frame_sink.h"

namespace perigee::tables {

struct RowOrder {
  std::vector<size_t> columns = {};
  std::vector<bool> descending = {false};  // of each column; the last one counts for those that follow
};

// Bytes of a chunk in a run: so small that chunks of many runs fit the memory at once.
uint64_t run_chunk_bytes(const TableRoom& room);
// Calls `use` with the rows of all runs in their order, in chunks. The runs are gone then. More runs than fit the memory are merged to fewer before.
void merge_runs(std::vector<ChunkStore> runs, const RowOrder& order, const TableRoom& room, const std::shared_ptr<ScratchFile>& file,
                const UseFrame& use);

// Sorts a table that may be larger than the memory: parts of it in memory, on all threads, then merged.
class SpilledSort : public FrameSink {
 public:
  SpilledSort(const TableRoom& room, std::vector<std::string> names, std::vector<bool> descending, std::string where, UseFrame use);
  void add(Frame&& frame) override;
  void finish() override;

 private:
  void write_runs();

  TableRoom room_;
  std::vector<std::string> names_;
  std::string where_;
  UseFrame use_;
  RowOrder order_;
  std::shared_ptr<ScratchFile> file_;
  std::vector<Frame> held_;
  uint64_t held_bytes_ = 0;
  std::vector<ChunkStore> runs_;
};

// Runs work(0) .. work(count - 1) on the threads; the first error in the order of the numbers is thrown when all are done.
void on_threads(int threads, size_t count, const std::function<void(size_t)>& work);

}  // namespace perigee::tables
