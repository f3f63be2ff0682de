#include "src/data/table/spill/spilled_rows.h"

#include <algorithm>
#include <numeric>

#include "src/data/table/spill/key_parts.h"
#include "src/data/table/spill/merge.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

ColumnSpec hidden_spec(const char* name) { return {.name = hidden_name(name), .type = Type::integer}; }

// Sorts the keys with the rows' numbers, which gives ranks; sorts those by the numbers, and puts them beside the rows that wait on the disk.
class RankSink : public FrameSink {
 public:
  RankSink(const TableRoom& room, std::vector<std::string> names, std::vector<bool> descending, std::string name, std::string where,
           UseFrame next)
      : names_(std::move(names)),
        where_(where),
        name_(std::move(name)),
        next_(std::move(next)),
        rows_(std::make_shared<ScratchFile>(room)),
        by_row_(room, {hidden_name("row")}, {false}, where, [this](Frame&& frame) { put(frame); }),
        by_key_(room, {"*"}, std::move(descending), where, [this](Frame&& frame) { rank(std::move(frame)); }) {}

  void add(Frame&& frame) override {
    Frame keys{.rows = frame.rows};
    for (const size_t c : columns_of(frame, names_, where_)) keys.add(frame.schema.columns[c], frame.columns[c]);
    keys.numbers.resize(static_cast<size_t>(frame.rows));
    std::iota(keys.numbers.begin(), keys.numbers.end(), numbered_);
    numbered_ += frame.rows;
    by_key_.add(std::move(keys));
    rows_.add(frame);
  }
  void finish() override {
    by_key_.finish();
    by_row_.finish();
  }

 private:
  void rank(Frame&& sorted) {
    Frame ranks{.rows = sorted.rows};
    Column row(Type::integer), rank(Type::integer);
    row.whole = std::move(sorted.numbers);
    rank.whole.resize(row.whole.size());
    std::iota(rank.whole.begin(), rank.whole.end(), ranked_);
    ranked_ += sorted.rows;
    ranks.add(hidden_spec("row"), std::move(row));
    ranks.add(hidden_spec("rank"), std::move(rank));
    by_row_.add(std::move(ranks));
  }
  void put(const Frame& ranks) {
    waiting_.insert(waiting_.end(), ranks.columns[1].whole.begin(), ranks.columns[1].whole.end());
    for (; chunk_ < rows_.size(); ++chunk_) {
      if (static_cast<int64_t>(waiting_.size()) < rows_.rows_of(chunk_)) return;
      Frame frame = rows_.take(chunk_);
      Column rank(Type::integer);
      rank.whole.assign(waiting_.begin(), waiting_.begin() + frame.rows);
      waiting_.erase(waiting_.begin(), waiting_.begin() + frame.rows);
      frame.add({.name = name_, .type = Type::integer}, std::move(rank));
      next_(std::move(frame));
    }
  }

  std::vector<std::string> names_;
  std::string where_, name_;
  UseFrame next_;
  ChunkStore rows_;
  SpilledSort by_row_, by_key_;
  int64_t numbered_ = 0, ranked_ = 0;
  std::vector<int64_t> waiting_;  // ranks whose rows come next
  size_t chunk_ = 0;
};

// The first of equal rows, part by part; of a part's rows only those that differ are held.
class DistinctSink : public PartsSink {
 public:
  DistinctSink(const TableRoom& room, std::vector<std::string> names, std::string where, UseFrame next)
      : PartsSink(room, std::move(next)), names_(std::move(names)), where_(std::move(where)) {}

 protected:
  std::vector<size_t> keys_of(const Frame& frame) override { return columns_of(frame, names_, where_); }
  bool compute(const ChunkStore& part, bool must, ChunkStore& run) override {
    Frame kept;
    bool fits = true;
    each_batch(part, room().part() / 2, [&](Frame&& batch) {
      if (!fits) return;
      append_chunk(kept, std::move(batch));
      std::vector<int64_t> first;
      group_rows(kept, keys(), &first);
      if (static_cast<int64_t>(first.size()) < kept.rows) kept.take(first);
      fits = must || bytes_of(kept) <= room().part();
    });
    if (fits) add_run(run, std::move(kept), room());
    return fits;
  }

 private:
  std::vector<std::string> names_;
  std::string where_;
};

class HeadSink : public FrameSink {
 public:
  HeadSink(int64_t from, int64_t count, UseFrame next) : from_(from), left_(count), next_(std::move(next)) {}
  void add(Frame&& frame) override {
    const int64_t begin = std::min(frame.rows, from_), end = begin + std::min(left_, frame.rows - begin);
    from_ -= begin;
    left_ -= end - begin;
    next_(rows_of(frame, begin, end));
  }
  void finish() override {}

 private:
  int64_t from_, left_;
  UseFrame next_;
};

class ChoiceSink : public FrameSink {
 public:
  ChoiceSink(const TableRoom& room, std::function<std::function<bool(int64_t)>(int64_t)> stays, UseFrame next)
      : stays_(std::move(stays)), next_(std::move(next)), rows_(std::make_shared<ScratchFile>(room)) {}
  void add(Frame&& frame) override { rows_.add(frame); }
  void finish() override {
    const auto stays = stays_(rows_.rows());
    int64_t row = 0;
    for (size_t chunk = 0; chunk < rows_.size(); ++chunk) {
      Frame frame = rows_.take(chunk);
      std::vector<int64_t> which;
      for (int64_t r = 0; r < frame.rows; ++r)
        if (stays(row++)) which.push_back(r);
      frame.take(which);
      next_(std::move(frame));
    }
  }

 private:
  std::function<std::function<bool(int64_t)>(int64_t)> stays_;
  UseFrame next_;
  ChunkStore rows_;
};

// Each row gets the number of the first row of its keys, by parts; sorted by that, then as wanted, the rows of a sequence stand together, and the
// sequences in the order of their first rows.
class SequenceSink : public FrameSink {
 public:
  SequenceSink(const TableRoom& room, std::vector<std::string> keys, std::vector<std::string> order, std::string where, UseFrame next)
      : room_(room),
        order_(std::move(order)),
        where_(std::move(where)),
        next_(std::move(next)),
        parts_(room, std::move(keys), where_, *this) {}

  void add(Frame&& frame) override {
    if (frame.rows == 0) return;
    if (sort_ == nullptr) {
      std::vector<std::string> names = {hidden_name("group")};
      for (const size_t c : columns_of(frame, order_, where_)) names.push_back(frame.schema.columns[c].name);
      sort_ =
          std::make_unique<SpilledSort>(room_, names, std::vector<bool>{false}, where_, [this](Frame&& sorted) { cut(std::move(sorted)); });
    }
    parts_.add(std::move(frame));
  }

  void finish() override {
    parts_.finish();
    if (sort_ != nullptr) sort_->finish();
    if (held_.rows > 0) give(held_.rows);
  }

 private:
  class Numbering : public PartsSink {
   public:
    Numbering(TableRoom room, std::vector<std::string> keys, std::string where, SequenceSink& owner)
        : PartsSink(one_thread(room), {}), keys_(std::move(keys)), where_(std::move(where)), owner_(owner) {}

   protected:
    std::vector<size_t> keys_of(const Frame& frame) override { return columns_of(frame, keys_, where_); }
    // Only the keys of the first rows are held. Twice over the part: it is not cut once rows have gone on.
    bool compute(const ChunkStore& part, bool must, ChunkStore&) override {
      Frame first;
      bool fits = true;
      for (const bool gives : {false, true})
        each_batch(part, room().part() / 4, [&](Frame&& batch) {
          if (!fits) return;
          const size_t row = batch.columns.size() - 1;
          const auto before = static_cast<size_t>(first.rows);
          Frame both = with_keys(first, batch, row);
          std::vector<size_t> columns(keys().size());
          std::iota(columns.begin(), columns.end(), size_t{0});
          std::vector<int64_t> firsts;
          const std::vector<int64_t> groups =
              columns.empty() ? std::vector<int64_t>(static_cast<size_t>(both.rows), 0) : group_rows(both, columns, &firsts);
          if (columns.empty()) firsts = {0};
          if (!gives) {
            both.take(firsts);
            first = std::move(both);
            fits = must || bytes_of(first) <= room().part();
            return;
          }
          Column group(Type::integer);
          for (size_t r = before; r < groups.size(); ++r) group.whole.push_back(first.columns.back().whole[static_cast<size_t>(groups[r])]);
          batch.columns[row] = std::move(group);
          batch.schema.columns[row] = hidden_spec("group");
          owner_.sort_->add(std::move(batch));
        });
      return fits;
    }

   private:
    static TableRoom one_thread(TableRoom room) {
      room.threads = 1;
      return room;
    }
    // The keys and the numbers of the first rows, and those of the batch.
    Frame with_keys(const Frame& first, const Frame& batch, size_t row) const {
      Frame both = first, more{.rows = batch.rows};
      for (const size_t c : keys()) more.schema.columns.push_back(batch.schema.columns[c]), more.columns.push_back(batch.columns[c]);
      more.schema.columns.push_back(batch.schema.columns[row]), more.columns.push_back(batch.columns[row]);
      append_chunk(both, std::move(more));
      return both;
    }
    std::vector<std::string> keys_;
    std::string where_;
    SequenceSink& owner_;
  };

  void cut(Frame&& sorted) {
    append_chunk(held_, std::move(sorted));
    if (bytes_of(held_) < next_look_) return;
    const std::vector<int64_t>& group = held_.columns.back().whole;
    size_t end = group.size() - 1;  // where the last sequence begins: more of it may follow
    while (end > 0 && group[end - 1] == group.back()) --end;
    if (end > 0) give(static_cast<int64_t>(end));
    next_look_ = std::max(run_chunk_bytes(room_), 2 * bytes_of(held_));
  }

  void give(int64_t rows) {
    Frame frame = rows == held_.rows ? std::move(held_) : rows_of(held_, 0, rows);
    held_ = rows == frame.rows && held_.columns.empty() ? Frame() : rows_of(held_, rows, held_.rows);
    const std::vector<int64_t>& group = frame.columns.back().whole;
    frame.sequences = {0};
    for (size_t r = 1; r < group.size(); ++r)
      if (group[r] != group[r - 1]) frame.sequences.push_back(static_cast<int64_t>(r));
    frame.sequences.push_back(frame.rows);
    frame.remove(frame.columns.size() - 1);
    next_(std::move(frame));
  }

  TableRoom room_;
  std::vector<std::string> order_;
  std::string where_;
  UseFrame next_;
  Numbering parts_;
  std::unique_ptr<SpilledSort> sort_;
  Frame held_;
  uint64_t next_look_ = 0;
};

}  // namespace

SinkPtr spilled_sort(const TableRoom& room, std::vector<std::string> names, std::vector<bool> descending, std::string where,
                     UseFrame next) {
  return std::make_unique<SpilledSort>(room, std::move(names), std::move(descending), std::move(where), std::move(next));
}
SinkPtr spilled_rank(const TableRoom& room, std::vector<std::string> names, std::vector<bool> descending, std::string name,
                     std::string where, UseFrame next) {
  return std::make_unique<RankSink>(room, std::move(names), std::move(descending), std::move(name), std::move(where), std::move(next));
}
SinkPtr spilled_distinct(const TableRoom& room, std::vector<std::string> names, std::string where, UseFrame next) {
  return std::make_unique<DistinctSink>(room, std::move(names), std::move(where), std::move(next));
}
SinkPtr spilled_head(int64_t from, int64_t count, UseFrame next) { return std::make_unique<HeadSink>(from, count, std::move(next)); }
SinkPtr spilled_choice(const TableRoom& room, std::function<std::function<bool(int64_t)>(int64_t)> stays, UseFrame next) {
  return std::make_unique<ChoiceSink>(room, std::move(stays), std::move(next));
}
SinkPtr spilled_sequence(const TableRoom& room, std::vector<std::string> keys, std::vector<std::string> order, std::string where,
                         UseFrame next) {
  return std::make_unique<SequenceSink>(room, std::move(keys), std::move(order), std::move(where), std::move(next));
}

}  // namespace perigee::tables
