// join: rows of two tables with equal keys side by side; align: those that are nearest in time.
#include <algorithm>
#include <unordered_map>

#include "src/core/error.h"
#include "src/data/table/steps.h"
#include "src/data/table/steps/row_loops.h"
#include "src/data/table/table_file.h"
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
  void fit(const Frame&) override { set_right(other_table(table_, context_)); }
  // The table itself, so that a model needs no other file.
  Json state() const override {
    if (right_.rows * static_cast<int64_t>(right_.columns.size()) > kMostKept)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the right table is too large to be kept with a model",
                                    .got = std::to_string(right_.rows) + " rows",
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
    const std::vector<size_t> left = columns_of(frame, on_, where_);
    std::vector<int64_t> left_rows, right_rows;
    if (looks_up(frame, left)) return apply_table(frame, frame.columns[left[0]]);
    std::vector<uint8_t> used(static_cast<size_t>(right_.rows));
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
    if (how_ == "right" || how_ == "outer")
      for (int64_t r = 0; r < right_.rows; ++r)
        if (!used[static_cast<size_t>(r)]) left_rows.push_back(-1), right_rows.push_back(r);
    Frame out{.rows = static_cast<int64_t>(left_rows.size())};
    for (size_t c = 0; c < frame.columns.size(); ++c) {
      const auto key = std::find(left.begin(), left.end(), c);
      Column column = frame.columns[c].rows(left_rows);
      if (key != left.end() && (how_ == "right" || how_ == "outer"))
        fill_key(column, frame.schema.columns[c], keys_[static_cast<size_t>(key - left.begin())], left_rows, right_rows);
      out.add(frame.schema.columns[c], std::move(column));
    }
    add_right(out, right_rows);
    for (const int64_t row : left_rows)
      if (!frame.numbers.empty()) out.numbers.push_back(row < 0 ? 0 : frame.numbers[static_cast<size_t>(row)]);
    frame = std::move(out);
  }

 private:
  void add_right(Frame& out, const std::vector<int64_t>& right_rows) const {
    for (size_t c = 0; c < right_.columns.size(); ++c) {
      if (std::find(keys_.begin(), keys_.end(), c) != keys_.end()) continue;
      if (!time_.empty() && right_.schema.columns[c].name == right_time_ && right_time_ == time_) continue;
      ColumnSpec spec = right_.schema.columns[c];
      if (out.schema.find(spec.name) >= 0) spec.name += "_right";
      spec.required = false;
      out.add(std::move(spec), right_.columns[c].rows(right_rows));
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
    add_right(frame, found);
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
  void fill_key(Column& column, ColumnSpec& spec, size_t key, const std::vector<int64_t>& left_rows,
                const std::vector<int64_t>& right_rows) const {
    Column out(column.type);
    for (size_t i = 0; i < left_rows.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (left_rows[i] >= 0 || right_.columns[key].is_missing(right_rows[i])) out.add_from(column, row);
      else if (const std::string text = cell_text(right_.columns[key], right_.schema.columns[key], right_rows[i]);
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

  Json table_;
  StepContext context_;
  bool fitted_ = false;
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
