// Tables of which a step reads some rows only, on the host: their gradients are zero but for those rows, so that sums, norms and updates pass
// over the rest. RowUpdate (src/core/row_update.h) says what becomes of rows that are passed over.
//
// A thread's gradient block holds zeros in the rows of no batch: plans add to it, and what a step has written is cleared before the next.
// `exact` keeps the numbers of the last steps' updates. A row that was passed over makes the steps that it missed, with a gradient of zero, before
// it is read, before anybody else sees it (settle), or when the memory of steps is full.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/train/host/thread_slice.h"
#include "src/train/training_setup.h"

namespace perigee {

class SparseRows {
 public:
  explicit SparseRows(TrainingSetup& training) : t_(training) {}  // without tables: see of()
  // Null where there are none. Error(model) where `lazy` was asked for and something else in the job needs all rows.
  static std::unique_ptr<SparseRows> of(TrainingSetup& training, const PlanSet& plans);

  std::vector<std::string> outputs() const;  // of plans, that are added to in every run

  // One thread, before a step: which rows `batch` reads.
  void arrange(const Batch& batch);
  // Then each thread: its share of the rows that are read makes the steps that it missed. A barrier before anybody reads them.
  void catch_up(int rank, int size);
  // Each thread, before its plans run: zeros where the step before has left something in its block.
  void clear(int rank, std::byte* gradient) const;
  // One thread, when all of a step's gradients are there and the optimiser knows the step: an update comes. `whole`: by a gradient of which rows
  // that this batch did not read may be part.
  void begin_update(bool whole);
  void end_update();                              // one thread, after all updates
  void written_elsewhere() { anywhere_ = true; }  // others may have written any row of the first thread's block

  // Calls use(range), between arrange() and the next, for what may not be zero in `range`, at most kUpdateChunk elements at a time; rows are cut at the range's ends.
  template <class Use>
  void for_each_chunk(Optimizer::Range range, Use use) const;
  // The same for an update: calls dense(range) for other windows, and update(range) for each whole row that begins in `range` and is to be
  // updated where read(range), its gradient, is not zero or the table is exact.
  template <class Dense, class Read, class Update>
  void for_each_update(Optimizer::Range range, Dense dense, Read read, Update update);
  std::span<const uint8_t> quiet() const { return quiet_; }  // as Optimizer::measure() takes it, after begin_update()

  // Every row makes the steps that it missed. One thread, while no other updates.
  void settle();
  void forget();  // the numbers are others: there is nothing to make up for
  size_t bytes() const;

 private:
  struct Table {
    size_t window = 0;
    int64_t begin = 0, width = 0, count = 0;  // elements before its first row, of a row; rows
    RowUpdate how = RowUpdate::exact;
    std::string output;
    size_t field = 0;              // of batches; its numbers from `low` on are rows
    int64_t low = 0, numbers = 0;  // numbers of an example
    std::vector<uint64_t> marks;
    std::vector<int32_t> rows, before;  // of this batch and the one before it, ascending
    // exact: the steps that move rows, of which the first ones are forgotten, and how many of them each row has made.
    struct Missed {
      UpdateParams params;
      bool moves_unused = false;  // also rows whose states are zero
    };
    std::vector<Missed> steps;
    std::vector<uint32_t> made;
    uint32_t recorded = 0, past = 0;  // so many steps there are in the memory, and without the one whose update is being made

    Optimizer::Range row(int64_t r) const { return {begin + r * width, begin + (r + 1) * width}; }
    int64_t end() const { return begin + count * width; }
  };
  static std::string obstacle(const TrainingSetup& training, const ParamWindow& window);
  void mark(Table& table, const Batch& batch);
  void make_up(Table& table, int64_t row);
  void record(Table& table);
  bool unused(const Table& table, Optimizer::Range row) const;
  bool zero(const std::byte* values, int64_t elements) const;
  void find_quiet(const Table& table);

  TrainingSetup& t_;
  std::vector<Table> tables_;  // ascending
  std::vector<std::byte> zeros_;
  std::vector<uint8_t> quiet_;
  bool anywhere_ = false, clear_all_ = false;  // of the first thread's block: after this step, before it
  bool whole_ = false;                         // all rows of the update's gradient are looked at
};

template <class Use>
void SparseRows::for_each_chunk(Optimizer::Range range, Use use) const {
  int64_t at = range.begin;
  const auto dense = [&](int64_t end) {
    if (at < end) perigee::for_each_chunk({at, end}, use);
  };
  for (const Table& table : tables_) {
    if (table.end() <= at || table.begin >= range.end) continue;
    dense(table.begin);
    const int64_t from = std::max(at, table.begin), to = std::min(range.end, table.end());
    auto row = std::lower_bound(table.rows.begin(), table.rows.end(), (from - table.begin) / table.width);
    for (; row != table.rows.end() && table.row(*row).begin < to; ++row) {
      const Optimizer::Range whole = table.row(*row);
      perigee::for_each_chunk({std::max(whole.begin, from), std::min(whole.end, to)}, use);
    }
    at = to;
  }
  dense(range.end);
}

template <class Dense, class Read, class Update>
void SparseRows::for_each_update(Optimizer::Range range, Dense dense, Read read, Update update) {
  int64_t at = range.begin;
  for (Table& table : tables_) {
    if (table.end() <= at || table.begin >= range.end) continue;
    if (at < table.begin) dense(Optimizer::Range{at, table.begin});
    const int64_t to = std::min(range.end, table.end());
    const int64_t first = at <= table.begin ? 0 : (at - table.begin + table.width - 1) / table.width;
    const auto one = [&](int64_t r) {
      const Optimizer::Range row = table.row(r);
      if ((whole_ || table.how == RowUpdate::lazy) && zero(read(row), table.width)) return;
      if (table.how == RowUpdate::exact) make_up(table, r), table.made[static_cast<size_t>(r)] = table.recorded;
      update(row);
    };
    if (whole_) {
      for (int64_t r = first; r < table.count && table.row(r).begin < to; ++r) one(r);
    } else {
      auto row = std::lower_bound(table.rows.begin(), table.rows.end(), first);
      for (; row != table.rows.end() && table.row(*row).begin < to; ++row) one(*row);
    }
    at = to;
  }
  if (at < range.end) dense(Optimizer::Range{at, range.end});
}

}  // namespace perigee
