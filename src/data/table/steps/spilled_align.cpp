// align where the other table is larger than the memory. Both tables are cut by their keys; what cannot be cut further (there are no keys, or few) is
// sorted by time, and goes through the memory piece by piece.
#include <algorithm>
#include <unordered_map>

#include "src/data/table/reading/table_file.h"
#include "src/data/table/spill/key_parts.h"
#include "src/data/table/spill/merge.h"
#include "src/data/table/steps/align.h"

namespace perigee::tables {
namespace {

// The first row of each key, or the last one.
using RowsOfKeys = std::unordered_map<uint64_t, Frame>;

// A table in the order of its times, in pieces that fit the memory. Rows of one time are in one piece.
class TimePieces {
 public:
  TimePieces(const TableRoom& room, const std::shared_ptr<ScratchFile>& file, std::vector<size_t> keys, size_t time)
      : most_bytes_(room.part() / 4), keys_(std::move(keys)), time_(time), pieces_(file) {}

  // Sorted rows; those without a time come last and are near to nothing.
  void add(Frame&& frame) {
    int64_t known = frame.rows;
    while (known > 0 && frame.columns[time_].is_missing(known - 1)) --known;
    append_chunk(held_, known < frame.rows ? rows_of(frame, 0, known) : std::move(frame));
    if (bytes_of(held_) < next_look_) return;
    const std::vector<int64_t>& times = held_.columns[time_].whole;
    size_t end = times.empty() ? 0 : times.size() - 1;  // where the last time begins: more of it may follow
    while (end > 0 && times[end - 1] == times.back()) --end;
    if (end > 0) put(static_cast<int64_t>(end));
    next_look_ = std::max(most_bytes_, 2 * bytes_of(held_));
  }
  // After the last row.
  void finish() {
    if (held_.rows > 0 || first_times_.empty()) put(held_.rows);
    RowsOfKeys after;
    after_.resize(first_times_.size());
    for (size_t piece = first_times_.size(); piece-- > 0;) {
      for (const auto& [key, row] : after) append_chunk(after_[piece], Frame(row));
      for (auto& [key, row] : firsts_[piece]) after.insert_or_assign(key, std::move(row));
    }
  }

  size_t count() const { return first_times_.size(); }
  int64_t first_time(size_t piece) const { return first_times_[piece]; }
  // With the last rows of each key before it, and the first ones after it.
  Frame piece(size_t piece) {
    Frame rows = before_[piece];
    append_chunk(rows, pieces_.read(piece));
    if (after_[piece].rows > 0) append_chunk(rows, Frame(after_[piece]));
    return rows;
  }

 private:
  void put(int64_t rows) {
    Frame piece = rows_of(held_, 0, rows);
    held_ = rows_of(held_, rows, held_.rows);
    first_times_.push_back(rows > 0 ? piece.columns[time_].whole[0] : 0);
    before_.push_back(rows_of(piece, 0, 0));
    for (const auto& [key, row] : last_) append_chunk(before_.back(), Frame(row));
    std::unordered_map<uint64_t, std::pair<int64_t, int64_t>> ends;  // the first and the last row of each key
    for (int64_t r = 0; r < rows; ++r) ends.try_emplace(key_hash(piece, keys_, r), r, r).first->second.second = r;
    firsts_.emplace_back();
    for (const auto& [key, rows_of_key] : ends) {
      firsts_.back().emplace(key, rows_of(piece, rows_of_key.first, rows_of_key.first + 1));
      last_.insert_or_assign(key, rows_of(piece, rows_of_key.second, rows_of_key.second + 1));
    }
    pieces_.add(piece);
  }

  uint64_t most_bytes_, next_look_ = most_bytes_;
  std::vector<size_t> keys_;
  size_t time_;
  ChunkStore pieces_;
  Frame held_;
  std::vector<int64_t> first_times_;
  RowsOfKeys last_;
  std::vector<RowsOfKeys> firsts_;
  std::vector<Frame> before_, after_;
};

class AlignSink : public FrameSink {
 public:
  AlignSink(const TableRoom& room, const Align& align, UseFrame next)
      : room_(room), align_(align), next_(std::move(next)), file_(std::make_shared<ScratchFile>(room)), left_(room, file_, 0) {}

  void add(Frame&& frame) override {
    frame.sequences.clear();
    if (left_schema_.columns.empty()) {
      left_schema_ = frame.schema;
      left_keys_ = align_.left_keys(frame);
      left_time_ = align_.left_time(frame);
    }
    Column numbers(Type::integer);
    for (int64_t r = 0; r < frame.rows; ++r) numbers.add_whole(rows_++);
    frame.add({.name = hidden_name("row"), .type = Type::integer}, std::move(numbers));
    left_.add(frame, left_keys_);
  }

  void finish() override {
    KeyParts right(room_, file_, 0);
    read_right(right);
    std::vector<ChunkStore>&lefts = left_.finish(), &rights = right.finish();
    for (size_t p = 0; p < lefts.size(); ++p) align_part(lefts[p], rights[p], 1);
    const auto give = [&](Frame&& frame) {
      frame.remove(left_schema_.columns.size());
      next_(std::move(frame));
    };
    if (!runs_.empty()) return merge_runs(std::move(runs_), {.columns = {left_schema_.columns.size()}}, room_, file_, give);
    Frame none = empty_frame(left_schema_);  // for its columns
    Align align = align_;
    align.set_right(empty_frame(right_schema_));
    align.apply(none);
    next_(std::move(none));
  }

 private:
  static constexpr unsigned kMostAlignLevels = 4;

  void read_right(KeyParts& right) {
    TableFile file(align_.right().path(), {.threads = room_.threads});
    for (bool whole = false; !whole;) {
      right_schema_ = file.schema();
      right_keys_ = align_.right().keys_of(right_schema_);
      right = KeyParts(room_, file_, 0);
      whole = file.each([](TableFile::Chunk&) {}, [&](TableFile::Chunk& chunk) { right.add(chunk.block.frame, right_keys_); });
    }
  }

  void align_part(ChunkStore& left, ChunkStore& right, unsigned level) {
    if (left.rows() == 0) return left.clear(), right.clear();
    if (right.bytes() > room_.part() && level < kMostAlignLevels && !right_keys_.empty()) {
      KeyParts lefts(room_, file_, level), rights(room_, file_, level);
      const int64_t rows = right.rows();
      for (size_t chunk = 0; chunk < left.size(); ++chunk) lefts.add(left.take(chunk), left_keys_);
      for (size_t chunk = 0; chunk < right.size(); ++chunk) rights.add(right.take(chunk), right_keys_);
      std::vector<ChunkStore>&some = lefts.finish(), &others = rights.finish();
      for (size_t p = 0; p < some.size(); ++p) align_part(some[p], others[p], others[p].rows() == rows ? kMostAlignLevels : level + 1);
      return;
    }
    if (right.bytes() > room_.part()) return align_by_time(left, right);
    Align align = align_;
    Frame table = empty_frame(right_schema_);
    for (size_t chunk = 0; chunk < right.size(); ++chunk) append_chunk(table, right.take(chunk));
    align.set_right(std::move(table));
    ChunkStore run(file_);
    each_batch(left, room_.part() / 16, [&](Frame&& batch) {
      align.apply(batch);
      add_run(run, std::move(batch), room_);
    });
    left.clear();
    runs_.push_back(std::move(run));
  }

  void align_by_time(ChunkStore& left, ChunkStore& right) {
    const size_t time = align_.right_time(empty_frame(right_schema_));
    TimePieces pieces(room_, file_, right_keys_, time);
    {
      SpilledSort sort(room_, {right_schema_.columns[time].name}, {false}, align_.where(),
                       [&](Frame&& sorted) { pieces.add(std::move(sorted)); });
      for (size_t chunk = 0; chunk < right.size(); ++chunk) sort.add(right.take(chunk));
      sort.finish();
    }
    pieces.finish();
    ChunkStore run(file_);
    SpilledSort by_row(room_, {hidden_name("row")}, {false}, align_.where(),
                       [&](Frame&& sorted) { add_run(run, std::move(sorted), room_); });
    Align align = align_;
    size_t piece = 0;
    align.set_right(pieces.piece(0));
    SpilledSort by_time(room_, {left_schema_.columns[left_time_].name}, {false}, align_.where(), [&](Frame&& sorted) {
      const Column& times = sorted.columns[left_time_];
      for (int64_t begin = 0, end = 0; begin < sorted.rows; begin = end) {
        // Rows that a later piece is for; those without a time come last.
        const auto is_later = [&](int64_t r) {
          return piece + 1 < pieces.count() && !times.is_missing(r) && times.whole[static_cast<size_t>(r)] >= pieces.first_time(piece + 1);
        };
        if (is_later(begin)) {
          while (is_later(begin)) ++piece;
          align.set_right(pieces.piece(piece));
        }
        for (end = begin + 1; end < sorted.rows && !is_later(end); ++end) {}
        Frame rows = rows_of(sorted, begin, end);
        align.apply(rows);
        by_row.add(std::move(rows));
      }
    });
    for (size_t chunk = 0; chunk < left.size(); ++chunk) by_time.add(left.take(chunk));
    by_time.finish();
    by_row.finish();
    runs_.push_back(std::move(run));
  }

  TableRoom room_;
  const Align& align_;
  UseFrame next_;
  std::shared_ptr<ScratchFile> file_;
  KeyParts left_;
  TableSchema left_schema_, right_schema_;
  std::vector<size_t> left_keys_, right_keys_;
  size_t left_time_ = 0;
  int64_t rows_ = 0;
  std::vector<ChunkStore> runs_;
};

}  // namespace

std::unique_ptr<FrameSink> spilled_align(const TableRoom& room, const Align& align, UseFrame next) {
  return std::make_unique<AlignSink>(room, align, std::move(next));
}

}  // namespace perigee::tables
