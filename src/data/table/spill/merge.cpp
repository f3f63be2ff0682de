#include "src/data/table/spill/merge.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <thread>

#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

// Decides most comparisons: the first column's value as bits that are ordered as it is. Numbers, then NaN, then what is missing.
struct RowHead {
  uint64_t bits = 0;
  uint8_t kind = 0;
};

uint64_t first_bytes(std::string_view text) {
  uint64_t bits = 0;
  for (size_t i = 0; i < 8; ++i) bits = bits << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
  return bits;
}

RowHead head_of(const Column& column, int64_t row, bool descending) {
  RowHead head;
  if (column.is_missing(row)) return {.bits = 0, .kind = 2};
  const auto r = static_cast<size_t>(row);
  if (column.type == Type::text) {
    head.bits = first_bytes(column.text(row));
  } else if (column.type == Type::real) {
    if (std::isnan(column.real[r])) return {.bits = 0, .kind = 1};
    const auto bits = std::bit_cast<uint64_t>(column.real[r] + 0.0);  // -0 is 0
    head.bits = bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
  } else if (column.type != Type::list) {
    head.bits = static_cast<uint64_t>(column.whole[r]) ^ uint64_t { 1 } << 63;
  }
  if (descending) head.bits = ~head.bits;
  return head;
}

// The chunk of a run that is read, and its next row.
struct RunCursor {
  ChunkStore* run = nullptr;
  size_t next_chunk = 0;
  Frame frame;
  std::vector<RowHead> heads;
  int64_t row = 0;
  RowHead head() const { return heads[static_cast<size_t>(row)]; }
};

class Merge {
 public:
  Merge(std::span<ChunkStore> runs, const RowOrder& order, uint64_t out_bytes, const UseFrame& use)
      : order_(order), out_bytes_(out_bytes), use_(use), cursors_(runs.size()) {
    for (size_t i = 0; i < runs.size(); ++i) cursors_[i].run = &runs[i];
  }

  void run() {
    for (size_t i = 0; i < cursors_.size(); ++i)
      if (load(cursors_[i])) heap_.push_back(i);
    if (heap_.empty()) return;
    const Column& first = cursors_[heap_[0]].frame.columns[order_.columns.empty() ? 0 : order_.columns[0]];
    decided_ = order_.columns.size() == 1 && first.type != Type::text;
    for (size_t i = heap_.size(); i-- > 0;) sink(i);
    while (!heap_.empty()) {
      RunCursor& cursor = cursors_[heap_[0]];
      picks_.push_back({static_cast<uint32_t>(heap_[0]), static_cast<uint32_t>(cursor.row)});
      const bool ended = ++cursor.row == cursor.frame.rows;
      if (ended || picks_.size() >= most_picks_) flush();
      if (ended && !load(cursor)) {
        heap_[0] = heap_.back();
        heap_.pop_back();
      }
      if (!heap_.empty()) sink(0);
    }
  }

 private:
  struct Pick {
    uint32_t run, row;
  };

  // The next chunk that has rows. False: there is none.
  bool load(RunCursor& cursor) {
    while (cursor.next_chunk < cursor.run->size()) {
      cursor.frame = cursor.run->take(cursor.next_chunk++);
      cursor.row = 0;
      if (cursor.frame.rows == 0) continue;
      cursor.heads.clear();
      for (int64_t r = 0; r < cursor.frame.rows; ++r)
        cursor.heads.push_back(order_.columns.empty() ? RowHead()
                                                      : head_of(cursor.frame.columns[order_.columns[0]], r, order_.descending[0]));
      most_picks_ =
          std::max<size_t>(1, static_cast<size_t>(static_cast<double>(cursor.frame.rows) / static_cast<double>(bytes_of(cursor.frame) + 1) *
                                                  static_cast<double>(out_bytes_)));
      return true;
    }
    cursor.frame = Frame();
    return false;
  }

  bool before(size_t a, size_t b) const {
    const RunCursor &left = cursors_[a], &right = cursors_[b];
    const RowHead x = left.head(), y = right.head();
    if (x.kind != y.kind) return x.kind < y.kind;
    if (x.bits != y.bits) return x.bits < y.bits;
    if (!decided_)
      for (size_t i = 0; i < order_.columns.size(); ++i) {
        const size_t c = order_.columns[i];
        const int result = compare_cells(left.frame.columns[c], left.row, right.frame.columns[c], right.row);
        if (result == 0) continue;
        return order_.descending[std::min(i, order_.descending.size() - 1)] && std::abs(result) < 2 ? result > 0 : result < 0;
      }
    return a < b;
  }

  // The entry at `at` goes down to where it belongs.
  void sink(size_t at) {
    const size_t moved = heap_[at];
    for (;;) {
      size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
      if (!before(heap_[child], moved)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = moved;
  }

  template <class T>
  void gather(std::vector<T> Column::*member, size_t c, std::vector<T>& out) const {
    out.resize(picks_.size());
    for (size_t i = 0; i < picks_.size(); ++i) out[i] = (cursors_[picks_[i].run].frame.columns[c].*member)[picks_[i].row];
  }

  template <class T>
  void gather_pieces(T Column::*content, size_t c, Column& out) const {
    for (const Pick pick : picks_) {
      const Column& from = cursors_[pick.run].frame.columns[c];
      const uint64_t begin = pick.row == 0 ? 0 : from.ends[pick.row - 1];
      auto& to = out.*content;
      to.insert(to.end(), (from.*content).begin() + static_cast<ptrdiff_t>(begin),
                (from.*content).begin() + static_cast<ptrdiff_t>(from.ends[pick.row]));
      out.ends.push_back(to.size());
    }
  }

  // Where none of the picked rows has a gap there is no list of gaps, as Column::rows() has it.
  void gather_gaps(size_t c, Column& out) const {
    const auto gap = [&](Pick pick) { return cursors_[pick.run].frame.columns[c].is_missing(pick.row); };
    if (std::none_of(picks_.begin(), picks_.end(), gap)) return;
    out.missing.resize(picks_.size());
    for (size_t i = 0; i < picks_.size(); ++i) out.missing[i] = gap(picks_[i]);
  }

  void flush() {
    const Frame& any = cursors_[picks_[0].run].frame;
    Frame out{.schema = any.schema, .rows = static_cast<int64_t>(picks_.size())};
    for (size_t c = 0; c < any.columns.size(); ++c) {
      Column column(any.columns[c].type);
      if (column.type == Type::text) gather_pieces(&Column::bytes, c, column);
      else if (column.type == Type::list) gather_pieces(&Column::items, c, column);
      else if (column.type == Type::real) gather(&Column::real, c, column.real);
      else gather(&Column::whole, c, column.whole);
      gather_gaps(c, column);
      out.columns.push_back(std::move(column));
    }
    if (!any.numbers.empty())
      for (const Pick pick : picks_) out.numbers.push_back(cursors_[pick.run].frame.numbers[pick.row]);
    picks_.clear();
    use_(std::move(out));
  }

  const RowOrder& order_;
  uint64_t out_bytes_;
  const UseFrame& use_;
  std::vector<RunCursor> cursors_;
  std::vector<size_t> heap_;  // numbers of runs, that with the next row first
  std::vector<Pick> picks_;
  size_t most_picks_ = 1;
  bool decided_ = false;  // the heads say everything
};

// Chunks as one table; each is freed when it is copied.
Frame joined_chunks(std::span<Frame> chunks) {
  Frame whole = std::move(chunks[0]);
  for (size_t c = 0; c < whole.columns.size(); ++c) {
    size_t rows = static_cast<size_t>(whole.rows), bytes = whole.columns[c].bytes.size(), items = whole.columns[c].items.size();
    for (const Frame& chunk : chunks.subspan(1)) {
      rows += static_cast<size_t>(chunk.rows);
      bytes += chunk.columns[c].bytes.size();
      items += chunk.columns[c].items.size();
    }
    whole.columns[c].reserve(static_cast<int64_t>(rows));
    whole.columns[c].bytes.reserve(bytes);
    whole.columns[c].items.reserve(items);
  }
  for (Frame& chunk : chunks.subspan(1)) {
    append_chunk(whole, std::move(chunk));
    chunk = Frame();
  }
  return whole;
}

}  // namespace

void on_threads(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(count);
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < threads && static_cast<size_t>(rank) < count; ++rank) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

uint64_t run_chunk_bytes(const TableRoom& room) { return std::clamp(room.part() / 256, uint64_t{16} << 10, uint64_t{1} << 20); }

void merge_runs(std::vector<ChunkStore> runs, const RowOrder& order, const TableRoom& room, const std::shared_ptr<ScratchFile>& file,
                const UseFrame& use) {
  const size_t most = std::max<size_t>(2, static_cast<size_t>(room.part() / run_chunk_bytes(room)));
  while (runs.size() > most) {
    const size_t parts = (runs.size() + most - 1) / most;
    std::vector<ChunkStore> fewer(parts, ChunkStore(file));
    // One after another: each takes all the memory that there is.
    for (size_t p = 0; p < parts; ++p) {
      const size_t begin = p * runs.size() / parts, end = (p + 1) * runs.size() / parts;
      const UseFrame keep = [&](Frame&& frame) { fewer[p].add(frame); };
      Merge(std::span(runs).subspan(begin, end - begin), order, run_chunk_bytes(room), keep).run();
    }
    runs = std::move(fewer);
  }
  Merge(runs, order, run_chunk_bytes(room) * 4, use).run();
}

SpilledSort::SpilledSort(const TableRoom& room, std::vector<std::string> names, std::vector<bool> descending, std::string where,
                         UseFrame use)
    : room_(room), names_(std::move(names)), where_(std::move(where)), use_(std::move(use)), file_(std::make_shared<ScratchFile>(room)) {
  order_.descending = std::move(descending);
}

void SpilledSort::add(Frame&& frame) {
  if (frame.rows == 0) return;
  if (order_.columns.empty()) order_.columns = columns_of(frame, names_, where_);
  each_piece(std::move(frame), room_.part() / static_cast<uint64_t>(2 * room_.threads), [&](Frame&& piece) {
    held_bytes_ += bytes_of(piece);
    held_.push_back(std::move(piece));
    if (held_bytes_ > room_.part()) write_runs();
  });
}

// The held chunks are cut among the threads: a run each.
void SpilledSort::write_runs() {
  if (held_.empty()) return;
  const size_t parts = std::min(held_.size(), static_cast<size_t>(room_.threads)), first = runs_.size();
  runs_.resize(first + parts, ChunkStore(file_));
  on_threads(room_.threads, parts, [&](size_t p) {
    const size_t begin = p * held_.size() / parts, end = (p + 1) * held_.size() / parts;
    const Frame whole = joined_chunks(std::span(held_).subspan(begin, end - begin));
    std::vector<int64_t> rows(static_cast<size_t>(whole.rows));
    std::iota(rows.begin(), rows.end(), 0);
    rows = sorted_rows(whole, order_.columns, order_.descending, std::move(rows));
    const double row_bytes = static_cast<double>(bytes_of(whole)) / static_cast<double>(whole.rows);
    const auto step = static_cast<size_t>(std::clamp(static_cast<double>(run_chunk_bytes(room_)) / row_bytes, 1.0, 1e6));
    for (size_t at = 0; at < rows.size(); at += step) {
      const std::vector<int64_t> some(rows.begin() + static_cast<ptrdiff_t>(at),
                                      rows.begin() + static_cast<ptrdiff_t>(std::min(rows.size(), at + step)));
      Frame piece{.schema = whole.schema, .rows = static_cast<int64_t>(some.size())};
      for (const Column& column : whole.columns) piece.columns.push_back(column.rows(some));
      for (const int64_t r : some)
        if (!whole.numbers.empty()) piece.numbers.push_back(whole.numbers[static_cast<size_t>(r)]);
      runs_[first + p].add(piece);
    }
  });
  held_.clear();
  held_bytes_ = 0;
}

void SpilledSort::finish() {
  write_runs();
  merge_runs(std::move(runs_), order_, room_, file_, use_);
}

}  // namespace perigee::tables
