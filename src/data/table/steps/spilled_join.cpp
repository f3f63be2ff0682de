// join where the right table, or what only it has, is not held in memory as a whole.
#include <numeric>

#include "src/data/table/reading/table_file.h"
#include "src/data/table/spill/key_parts.h"
#include "src/data/table/spill/merge.h"
#include "src/data/table/steps/join.h"

namespace perigee::tables {
namespace {

// Both tables in parts by their keys; each part of the right one is in memory once, and the left rows of that part go by it. The rows that come out are
// merged by the left rows' numbers, then those that only the right table has by theirs.
class JoinSink : public FrameSink {
 public:
  JoinSink(const TableRoom& room, const Join& join, UseFrame next)
      : room_(room), join_(join), next_(std::move(next)), file_(std::make_shared<ScratchFile>(room)), left_(room, file_, 0) {}

  void add(Frame&& frame) override {
    frame.sequences.clear();
    if (left_schema_.columns.empty()) {
      left_schema_ = frame.schema;
      left_keys_ = join_.left_keys(frame);
    }
    numbered_ |= !frame.numbers.empty();
    number_rows(frame, left_rows_);
    left_.add(frame, left_keys_);
  }

  void finish() override {
    KeyParts right(room_, file_, 0);
    read_right(right);
    std::vector<ChunkStore>&left_parts = left_.finish(), &right_parts = right.finish();
    for (size_t p = 0; p < left_parts.size(); ++p) join_part(left_parts[p], right_parts[p], 1);
    const auto merge = [&](std::vector<ChunkStore>& runs, size_t row, const UseFrame& use) {
      if (!runs.empty()) merge_runs(std::move(runs), {.columns = {row}}, room_, file_, use);
    };
    merge(joined_, left_schema_.columns.size(), [&](Frame&& frame) {
      frame.remove(left_schema_.columns.size());
      frame.remove(static_cast<size_t>(frame.schema.find(hidden_name("right"))));
      next_(std::move(frame));
    });
    merge(alone_, right_schema_.columns.size(), [&](Frame&& frame) {
      frame.remove(frame.columns.size() - 1);
      next_(join_.right_only(left_schema_, left_keys_, frame, right_keys_, numbered_));
    });
  }

 private:
  static constexpr unsigned kMostJoinLevels = 4;

  void number_rows(Frame& frame, int64_t& first, const char* name = "row") const {
    Column numbers(Type::integer);
    numbers.whole.resize(static_cast<size_t>(frame.rows));
    std::iota(numbers.whole.begin(), numbers.whole.end(), first);
    first += frame.rows;
    frame.add({.name = hidden_name(name), .type = Type::integer}, std::move(numbers));
  }

  void read_right(KeyParts& right) {
    TableFile file(join_.right().path(), {.threads = room_.threads});
    for (bool whole = false; !whole;) {
      right_schema_ = file.schema();
      right_keys_ = join_.right().keys_of(right_schema_);
      int64_t rows = 0;
      right = KeyParts(room_, file_, 0);
      whole = file.each([](TableFile::Chunk&) {},
                        [&](TableFile::Chunk& chunk) {
                          number_rows(chunk.block.frame, rows, "right");
                          right.add(chunk.block.frame, right_keys_);
                        });
    }
  }

  void join_part(ChunkStore& left, ChunkStore& right, unsigned level) {
    if (right.bytes() > room_.part() && level < kMostJoinLevels) {
      KeyParts lefts(room_, file_, level), rights(room_, file_, level);
      const int64_t rows = right.rows();
      for (size_t chunk = 0; chunk < left.size(); ++chunk) lefts.add(left.take(chunk), left_keys_);
      for (size_t chunk = 0; chunk < right.size(); ++chunk) rights.add(right.take(chunk), right_keys_);
      std::vector<ChunkStore>&some = lefts.finish(), &others = rights.finish();
      for (size_t p = 0; p < some.size(); ++p) join_part(some[p], others[p], others[p].rows() == rows ? kMostJoinLevels : level + 1);
      return;
    }
    Join join = join_;
    Frame table;
    for (size_t chunk = 0; chunk < right.size(); ++chunk) append_chunk(table, right.take(chunk));
    if (table.columns.empty()) {
      table = empty_frame(right_schema_);
      int64_t none = 0;
      number_rows(table, none, "right");
    }
    join.set_right(std::move(table));
    std::vector<uint8_t> used(static_cast<size_t>(join.right().frame().rows));
    ChunkStore run(file_);
    each_batch(left, room_.part() / 16, [&](Frame&& batch) {
      join.join_rows(batch, used, false);
      add_run(run, std::move(batch), room_);
    });
    left.clear();
    if (run.rows() > 0) joined_.push_back(std::move(run));
    if (join_.keeps_right()) keep_alone(join.right().take(), used);
  }

  void keep_alone(Frame&& right, const std::vector<uint8_t>& used) {
    std::vector<int64_t> rows;
    for (size_t r = 0; r < used.size(); ++r)
      if (!used[r]) rows.push_back(static_cast<int64_t>(r));
    if (rows.empty()) return;
    right.take(rows);
    alone_.emplace_back(file_);
    add_run(alone_.back(), std::move(right), room_);
  }

  TableRoom room_;
  const Join& join_;
  UseFrame next_;
  std::shared_ptr<ScratchFile> file_;
  KeyParts left_;
  TableSchema left_schema_, right_schema_;
  std::vector<size_t> left_keys_, right_keys_;
  int64_t left_rows_ = 0;
  bool numbered_ = false;
  std::vector<ChunkStore> joined_, alone_;
};

// A right table in memory, of which the rows that no left row has come last.
class OuterJoinSink : public FrameSink {
 public:
  OuterJoinSink(const Join& join, UseFrame next)
      : join_(join), next_(std::move(next)), used_(static_cast<size_t>(join.right().frame().rows)) {}
  void add(Frame&& frame) override {
    if (left_.columns.empty()) left_ = frame.schema, keys_ = join_.left_keys(frame);
    numbered_ |= !frame.numbers.empty();
    frame.sequences.clear();
    join_.join_rows(frame, used_, false);
    next_(std::move(frame));
  }
  void finish() override {
    std::vector<int64_t> rows;
    for (size_t r = 0; r < used_.size(); ++r)
      if (!used_[r]) rows.push_back(static_cast<int64_t>(r));
    Frame right{.schema = join_.right().frame().schema, .rows = static_cast<int64_t>(rows.size())};
    for (const Column& column : join_.right().frame().columns) right.columns.push_back(column.rows(rows));
    next_(join_.right_only(left_, keys_, right, join_.right().keys(), numbered_));
  }

 private:
  const Join& join_;
  UseFrame next_;
  std::vector<uint8_t> used_;
  TableSchema left_;
  std::vector<size_t> keys_;
  bool numbered_ = false;
};

}  // namespace

std::unique_ptr<FrameSink> spilled_join(const TableRoom& room, const Join& join, UseFrame next) {
  return std::make_unique<JoinSink>(room, join, std::move(next));
}

std::unique_ptr<FrameSink> outer_join(const Join& join, UseFrame next) { return std::make_unique<OuterJoinSink>(join, std::move(next)); }

}  // namespace perigee::tables
