// join: rows of two tables with equal keys side by side; align: those that are nearest in time.
#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "src/core/error.h"
#include "src/data/table/loops/conditions.h"
#include "src/data/table/loops/groups.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/spill/key_parts.h"
#include "src/data/table/spill/merge.h"
#include "src/data/table/steps.h"
#include "src/data/table/time_text.h"
#include "src/io/file.h"

namespace perigee::tables {

namespace {

// The other table: a file, or one that stands in the step.
Frame other_table(const Json& json, const StepContext& context) {
  if (json.is_string()) return read_table(path_in(context.folder, json.as_string()));
  const Config config(json, context.where, ErrorKind::data);
  const Json* rows = config.raw("rows");
  Frame frame = empty_frame(
      schema_of(Json(Json::Object{{"columns", config.raw("columns") != nullptr ? *config.raw("columns") : Json()}}), context.where));
  if (rows == nullptr || !rows->is_array()) config.fail("rows", "must be a list of rows");
  for (const Json& row : rows->as_array()) {
    if (!row.is_array() || row.as_array().size() != frame.columns.size())
      config.fail("rows", "has a row of another length", shown(row), std::to_string(frame.columns.size()) + " values");
    for (size_t c = 0; c < frame.columns.size(); ++c) {
      const Json& cell = row.as_array()[c];
      if (cell.is_null()) frame.columns[c].add_missing();
      else if (!add_parsed(frame.schema.columns[c], cell.is_string() ? cell.as_string() : cell.dump(), frame.columns[c]))
        config.fail("rows", "has a value of another type than '" + frame.schema.columns[c].name + "'", shown(cell),
                    type_text(frame.schema.columns[c].type));
    }
    ++frame.rows;
  }
  return frame;
}

constexpr int64_t kMostKept = 1'000'000;

class JoinSink;
class OuterJoinSink;

class Join : public Step {
 public:
  Join(const Config& config, const StepContext& context)
      : table_(*config.raw((config.json().find("join") != nullptr) ? "join" : "align")),
        context_(context),
        on_(config.string_list("on")),
        right_on_(config.has("right_on") ? config.string_list("right_on") : on_),
        how_((config.json().find("join") != nullptr) ? config.string("how", "inner") : "left"),
        where_(context.where),
        time_((config.json().find("join") != nullptr) ? "" : config.string("by")) {
    if (!time_.empty()) {
      right_time_ = config.string("right_by", time_);
      match_ = config.string("match", "previous");
      within_ = config.has("within") ? span_ms(config.string("within"), context.where) : INT64_MAX;
    }
    if ((on_.empty() && time_.empty()) || on_.size() != right_on_.size()) config.fail("on", "names no keys, or not as many as 'right_on'");
  }

  bool is_fitted() const override { return fitted_; }
  bool fits_alone() const override { return true; }
  // A file that is larger than the memory stays where it is: spilled() reads it.
  void fit(const Frame&) override {
    if (!table_.is_string() || !time_.empty()) return set_right(other_table(table_, context_));
    std::optional<Frame> right = TableFile(right_path(), {.threads = context_.room.threads}).all_within(context_.room.part());
    large_ = !right;
    if (right) set_right(std::move(*right));
  }
  bool only_spilled() const override { return large_; }
  std::unique_ptr<FrameSink> spilled(const TableRoom& room, const UseFrame& next) const override;
  // The table itself, so that a model needs no other file.
  Json state() const override {
    if (large_ || right_.rows * static_cast<int64_t>(right_.columns.size()) > kMostKept)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the right table is too large to be kept with a model",
                                    .got = large_ ? "more than the memory" : std::to_string(right_.rows) + " rows",
                                    .hint = "join before: `perigee data convert --steps`"});
    Json json = schema_json(right_.schema), rows = Json::array();
    for (int64_t r = 0; r < right_.rows; ++r) {
      Json row = Json::array();
      for (size_t c = 0; c < right_.columns.size(); ++c) row.push(cell_json(right_.columns[c], right_.schema.columns[c], r));
      rows.push(std::move(row));
    }
    json.set("rows", std::move(rows));
    return json;
  }
  void set_state(const Config& state) override { set_right(other_table(state.json(), context_)); }

  // In a right or outer join, rows of the right table that no left row has come last: they need all left rows.
  bool by_rows() const override { return how_ == "inner" || how_ == "left"; }

  void apply(Frame& frame) const override {
    std::vector<uint8_t> used(static_cast<size_t>(right_.rows));
    join_rows(frame, used, how_ == "right" || how_ == "outer");
  }

 private:
  friend class JoinSink;
  friend class OuterJoinSink;

  std::string right_path() const { return path_in(context_.folder, table_.as_string()); }

  // `used`: 1 for each right row that has a left one. `rest`: those that have none come last.
  void join_rows(Frame& frame, std::vector<uint8_t>& used, bool rest) const {
    const std::vector<size_t> left = columns_of(frame, on_, where_);
    std::vector<int64_t> left_rows, right_rows;
    if (looks_up(frame, left)) return apply_table(frame, frame.columns[left[0]]);
    for (int64_t r = 0; r < frame.rows; ++r) {
      const size_t before = right_rows.size();
      if (!time_.empty()) {
        right_rows.push_back(nearest(frame, left, r));
        left_rows.push_back(r);
        continue;
      }
      for (auto [at, end] = rows_of_.equal_range(hash(frame, left, r)); at != end; ++at)
        if (same(frame, left, r, at->second)) right_rows.push_back(at->second);
      std::sort(right_rows.begin() + static_cast<ptrdiff_t>(before), right_rows.end());
      for (size_t i = before; i < right_rows.size(); ++i) used[static_cast<size_t>(right_rows[i])] = 1;
      if (right_rows.size() == before && (how_ == "left" || how_ == "outer")) right_rows.push_back(-1);
      left_rows.resize(right_rows.size(), r);
      if (right_rows.size() > (size_t{1} << 32)) throw Error(ErrorKind::resources, {.where = where_, .what = "the join has too many rows"});
    }
    if (rest)
      for (int64_t r = 0; r < right_.rows; ++r)
        if (!used[static_cast<size_t>(r)]) left_rows.push_back(-1), right_rows.push_back(r);
    Frame out{.rows = static_cast<int64_t>(left_rows.size())};
    for (size_t c = 0; c < frame.columns.size(); ++c) {
      const auto key = std::find(left.begin(), left.end(), c);
      Column column = frame.columns[c].rows(left_rows);
      if (key != left.end() && rest)
        fill_key(column, frame.schema.columns[c], right_, keys_[static_cast<size_t>(key - left.begin())], left_rows, right_rows);
      out.add(frame.schema.columns[c], std::move(column));
    }
    add_right(out, right_, keys_, right_rows);
    for (const int64_t row : left_rows)
      if (!frame.numbers.empty()) out.numbers.push_back(row < 0 ? 0 : frame.numbers[static_cast<size_t>(row)]);
    frame = std::move(out);
  }

  void add_right(Frame& out, const Frame& right, const std::vector<size_t>& keys, const std::vector<int64_t>& right_rows) const {
    for (size_t c = 0; c < right.columns.size(); ++c) {
      if (std::find(keys.begin(), keys.end(), c) != keys.end()) continue;
      if (!time_.empty() && right.schema.columns[c].name == right_time_ && right_time_ == time_) continue;
      ColumnSpec spec = right.schema.columns[c];
      if (out.schema.find(spec.name) >= 0) spec.name += "_right";
      spec.required = false;
      out.add(std::move(spec), right.columns[c].rows(right_rows));
    }
  }

  // One whole number on either side is looked up in a list of the right rows, where each has its own.
  bool looks_up(const Frame& frame, const std::vector<size_t>& left) const {
    if (table_of_.empty() || left.size() != 1) return false;
    const Column& key = frame.columns[left[0]];
    return (key.type == Type::integer || key.type == Type::time) && key.type == right_.columns[keys_[0]].type && key.missing.empty();
  }
  void apply_table(Frame& frame, const Column& key) const {
    std::vector<int64_t> found;
    look_up(key, least_, table_of_, found);
    if (how_ == "inner") {
      std::vector<uint8_t> stays(found.size());
      for (size_t r = 0; r < found.size(); ++r) stays[r] = found[r] >= 0;
      std::vector<int64_t> rows;
      rows_that_stay(stays, 0, frame.rows, rows);
      if (rows.size() < found.size()) {
        frame.take(rows);
        found.erase(std::remove(found.begin(), found.end(), -1), found.end());
      }
    }
    frame.sequences.clear();
    add_right(frame, right_, keys_, found);
  }
  void list_rows() {
    int64_t most = 0;
    if (keys_.size() != 1 || (how_ != "inner" && how_ != "left") || !small_range(right_.columns[keys_[0]], least_, most)) return;
    table_of_.assign(static_cast<size_t>(most - least_) + 1, -1);
    for (int64_t r = 0; r < right_.rows; ++r) {
      int64_t& row = table_of_[static_cast<size_t>(right_.columns[keys_[0]].whole[static_cast<size_t>(r)] - least_)];
      if (row >= 0) return table_of_.clear();  // a key that comes twice
      row = r;
    }
  }

  void set_right(Frame right) {
    right_ = std::move(right);
    for (const std::string& name : right_on_) keys_.push_back(right_.schema.at(name, where_ + ": the right table"));
    fitted_ = true;
    if (!time_.empty()) return sort_by_time();
    list_rows();
    for (int64_t r = 0; r < right_.rows; ++r) rows_of_.emplace(hash(right_, keys_, r), r);
  }

  const Column& time_column(const Frame& frame, const std::string& name) const {
    return frame.columns[columns_of(frame, {name}, where_, [](Type t) { return t == Type::time || t == Type::integer; }).at(0)];
  }

  void sort_by_time() {
    const Column& time = time_column(right_, right_time_);
    for (int64_t r = 0; r < right_.rows; ++r)
      if (!time.is_missing(r)) by_time_[hash(right_, keys_, r)].push_back(r);
    for (auto& [key, rows] : by_time_)
      std::stable_sort(rows.begin(), rows.end(),
                       [&](int64_t a, int64_t b) { return time.whole[static_cast<size_t>(a)] < time.whole[static_cast<size_t>(b)]; });
  }

  // The row of the right table with the same keys that is nearest in time as `match_` says; of equal times the last one that is not later, the
  // first one that is; -1: there is none.
  int64_t nearest(const Frame& frame, const std::vector<size_t>& left, int64_t row) const {
    const Column &mine = time_column(frame, time_), &theirs = time_column(right_, right_time_);
    const auto found = by_time_.find(hash(frame, left, row));
    if (found == by_time_.end() || mine.is_missing(row)) return -1;
    const std::vector<int64_t>& rows = found->second;
    const int64_t now = mine.whole[static_cast<size_t>(row)];
    const auto time_of = [&](int64_t r) { return theirs.whole[static_cast<size_t>(r)]; };
    const auto later = std::upper_bound(rows.begin(), rows.end(), now, [&](int64_t t, int64_t r) { return t < time_of(r); });
    const auto from = std::lower_bound(rows.begin(), rows.end(), now, [&](int64_t r, int64_t t) { return time_of(r) < t; });
    const int64_t before = later == rows.begin() ? -1 : *(later - 1), after = from == rows.end() ? -1 : *from;
    const auto distance = [&](int64_t r) {
      return r < 0 || !same(frame, left, row, r)
                 ? UINT64_MAX
                 : static_cast<uint64_t>(std::max(now, time_of(r))) - static_cast<uint64_t>(std::min(now, time_of(r)));
    };
    int64_t best = match_ == "next" ? after : before;
    if (match_ == "nearest" && distance(after) < distance(before)) best = after;
    return distance(best) <= static_cast<uint64_t>(within_) ? best : -1;
  }

  static uint64_t hash(const Frame& frame, const std::vector<size_t>& columns, int64_t row) {
    uint64_t all = 0;
    for (const size_t c : columns) all = (all ^ cell_hash(frame.columns[c], frame.schema.columns[c], row)) * 0x9e3779b97f4a7c15;
    return all;
  }
  // Nothing is equal to a missing key.
  bool same(const Frame& frame, const std::vector<size_t>& left, int64_t row, int64_t right_row) const {
    for (size_t i = 0; i < left.size(); ++i)
      if (frame.columns[left[i]].is_missing(row) || !same_cell(frame.columns[left[i]], frame.schema.columns[left[i]], row,
                                                               right_.columns[keys_[i]], right_.schema.columns[keys_[i]], right_row))
        return false;
    return true;
  }
  // Keys of rows that only the right table has.
  void fill_key(Column& column, ColumnSpec& spec, const Frame& right, size_t key, const std::vector<int64_t>& left_rows,
                const std::vector<int64_t>& right_rows) const {
    Column out(column.type);
    for (size_t i = 0; i < left_rows.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (left_rows[i] >= 0 || right.columns[key].is_missing(right_rows[i])) out.add_from(column, row);
      else if (const std::string text = cell_text(right.columns[key], right.schema.columns[key], right_rows[i]);
               !add_parsed(spec, text, out)) {
        if (spec.type != Type::category)
          throw Error(ErrorKind::data, {.where = where_,
                                        .what = "a key of the right table does not fit the column '" + spec.name + "'",
                                        .got = "'" + text.substr(0, 40) + "'",
                                        .expected = std::string("a ") + type_text(spec.type)});
        spec.categories.push_back(text);
        out.add_whole(static_cast<int64_t>(spec.categories.size()) - 1);
      }
    }
    column = std::move(out);
  }

  // Rows that only the right table has; the categories of the left one may grow.
  Frame right_only(TableSchema& left, const std::vector<size_t>& left_keys, const Frame& right, const std::vector<size_t>& right_keys,
                   bool numbered) const {
    const std::vector<int64_t> none(static_cast<size_t>(right.rows), -1);
    std::vector<int64_t> all(none.size());
    std::iota(all.begin(), all.end(), 0);
    Frame out{.rows = static_cast<int64_t>(all.size())};
    for (size_t c = 0; c < left.columns.size(); ++c) {
      Column column = Column(left.columns[c].type).rows(none);
      const auto key = std::find(left_keys.begin(), left_keys.end(), c);
      if (key != left_keys.end())
        fill_key(column, left.columns[c], right, right_keys[static_cast<size_t>(key - left_keys.begin())], none, all);
      out.add(left.columns[c], std::move(column));
    }
    add_right(out, right, right_keys, all);
    if (numbered) out.numbers.assign(all.size(), 0);
    return out;
  }

  Json table_;
  StepContext context_;
  bool fitted_ = false, large_ = false;
  Frame right_;
  std::vector<std::string> on_, right_on_;
  std::string how_, where_;
  std::vector<size_t> keys_;
  std::unordered_multimap<uint64_t, int64_t> rows_of_;
  std::vector<int64_t> table_of_ = {};  // of each key from least_ on its row; empty: keys are no short range
  int64_t least_ = 0;
  // For align: the times' columns, and the right rows of each key by time.
  std::string time_, right_time_, match_;
  int64_t within_ = INT64_MAX;
  std::unordered_map<uint64_t, std::vector<int64_t>> by_time_;
};

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
      left_keys_ = columns_of(frame, join_.on_, join_.where_);
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
    TableFile file(join_.right_path(), {.threads = room_.threads});
    for (bool whole = false; !whole;) {
      right_schema_ = file.schema();
      right_keys_.clear();
      for (const std::string& name : join_.right_on_) right_keys_.push_back(right_schema_.at(name, join_.where_ + ": the right table"));
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
    std::vector<uint8_t> used(static_cast<size_t>(join.right_.rows));
    ChunkStore run(file_);
    each_batch(left, room_.part() / 16, [&](Frame&& batch) {
      join.join_rows(batch, used, false);
      add_run(run, std::move(batch), room_);
    });
    left.clear();
    if (run.rows() > 0) joined_.push_back(std::move(run));
    if (join_.how_ == "right" || join_.how_ == "outer") keep_alone(std::move(join.right_), used);
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
  OuterJoinSink(const Join& join, UseFrame next) : join_(join), next_(std::move(next)), used_(static_cast<size_t>(join.right_.rows)) {}
  void add(Frame&& frame) override {
    if (left_.columns.empty()) left_ = frame.schema, keys_ = columns_of(frame, join_.on_, join_.where_);
    numbered_ |= !frame.numbers.empty();
    frame.sequences.clear();
    join_.join_rows(frame, used_, false);
    next_(std::move(frame));
  }
  void finish() override {
    std::vector<int64_t> rows;
    for (size_t r = 0; r < used_.size(); ++r)
      if (!used_[r]) rows.push_back(static_cast<int64_t>(r));
    Frame right{.schema = join_.right_.schema, .rows = static_cast<int64_t>(rows.size())};
    for (const Column& column : join_.right_.columns) right.columns.push_back(column.rows(rows));
    next_(join_.right_only(left_, keys_, right, join_.keys_, numbered_));
  }

 private:
  const Join& join_;
  UseFrame next_;
  std::vector<uint8_t> used_;
  TableSchema left_;
  std::vector<size_t> keys_;
  bool numbered_ = false;
};

std::unique_ptr<FrameSink> Join::spilled(const TableRoom& room, const UseFrame& next) const {
  if (large_) return std::make_unique<JoinSink>(room, *this, next);
  return std::make_unique<OuterJoinSink>(*this, next);
}

std::unique_ptr<Step> open_join(const Config& config, const StepContext& context) { return std::make_unique<Join>(config, context); }

constexpr Option kJoin[] = {{"join", "file or table", nullptr, "the right table: a file, or {columns, rows}"},
                            {"on", "list of names", nullptr, "the keys"},
                            {"right_on", "list of names", "on", "their names in the right table"},
                            {"how", "name", "inner", "whose rows stay without a partner", {}, {"inner", "left", "right", "outer"}}};

constexpr Option kAlign[] = {{"align", "file or table", nullptr, "the other table: a file, or {columns, rows}"},
                             {"by", "name", nullptr, "the column of times, or of integers"},
                             {"right_by", "name", "by", "its name in the other table"},
                             {"on", "list of names", "[]", "keys that must be equal too"},
                             {"right_on", "list of names", "on", "their names in the other table"},
                             {"match",
                              "name",
                              "previous",
                              "which row: the last one not later, the first one not earlier, or the nearer",
                              {},
                              {"previous", "next", "nearest"}},
                             {"within", "string", "any", "how far it may be: \"5 minutes\""}};

}  // namespace

extern const StepDef step_join, step_align;
const StepDef step_align{"align", "puts the row of another table that is nearest in time beside each row", {.options = kAlign}, open_join};
const StepDef step_join{"join", "puts rows of another table with equal keys beside each row", {.options = kJoin}, open_join};

}  // namespace perigee::tables
