#include "src/data/table/steps/align.h"

#include <algorithm>

#include "src/data/table/time_text.h"

namespace perigee::tables {

Align::Align(const Config& config, const StepContext& context)
    : right_(config, "align", context),
      on_(config.string_list("on")),
      where_(context.where),
      time_(config.string("by")),
      right_time_(config.string("right_by", time_)),
      match_(config.string("match", "previous")),
      within_(config.has("within") ? span_ms(config.string("within"), context.where) : INT64_MAX) {}

void Align::fit(const Frame&) {
  right_.read();
  if (right_.is_read()) sort_by_time();
}

void Align::set_state(const Config& state) {
  right_.set_state(state);
  sort_by_time();
}

void Align::set_right(Frame right) {
  right_.set(std::move(right));
  by_time_.clear();
  sort_by_time();
}

std::unique_ptr<FrameSink> Align::spilled(const TableRoom& room, const UseFrame& next) const {
  return right_.is_large() ? spilled_align(room, *this, next) : nullptr;
}

void Align::apply(Frame& frame) const {
  const std::vector<size_t> left = columns_of(frame, on_, where_);
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(frame.rows));
  for (int64_t r = 0; r < frame.rows; ++r) rows.push_back(nearest(frame, left, r));
  std::vector<size_t> left_out = right_.keys();
  if (right_time_ == time_) left_out.push_back(right_.frame().schema.at(time_, where_));
  frame.sequences.clear();
  add_right_columns(frame, right_.frame(), left_out, rows);
}

size_t Align::time_column(const Frame& frame, const std::string& name) const {
  return columns_of(frame, {name}, where_, [](Type t) { return t == Type::time || t == Type::integer; }).at(0);
}

void Align::sort_by_time() {
  const Column& time = right_.frame().columns[right_time(right_.frame())];
  for (int64_t r = 0; r < right_.frame().rows; ++r)
    if (!time.is_missing(r)) by_time_[key_hash(right_.frame(), right_.keys(), r)].push_back(r);
  for (auto& [key, rows] : by_time_)
    std::stable_sort(rows.begin(), rows.end(),
                     [&](int64_t a, int64_t b) { return time.whole[static_cast<size_t>(a)] < time.whole[static_cast<size_t>(b)]; });
}

// The row of the right table with the same keys that is nearest in time as `match_` says; of equal times the last one that is not later, the
// first one that is; -1: there is none.
int64_t Align::nearest(const Frame& frame, const std::vector<size_t>& left, int64_t row) const {
  const Column &mine = frame.columns[left_time(frame)], &theirs = right_.frame().columns[right_time(right_.frame())];
  const auto found = by_time_.find(key_hash(frame, left, row));
  if (found == by_time_.end() || mine.is_missing(row)) return -1;
  const std::vector<int64_t>& rows = found->second;
  const int64_t now = mine.whole[static_cast<size_t>(row)];
  const auto time_of = [&](int64_t r) { return theirs.whole[static_cast<size_t>(r)]; };
  const auto later = std::upper_bound(rows.begin(), rows.end(), now, [&](int64_t t, int64_t r) { return t < time_of(r); });
  const auto from = std::lower_bound(rows.begin(), rows.end(), now, [&](int64_t r, int64_t t) { return time_of(r) < t; });
  const int64_t before = later == rows.begin() ? -1 : *(later - 1), after = from == rows.end() ? -1 : *from;
  const auto distance = [&](int64_t r) {
    return r < 0 || !right_.same(frame, left, row, r)
               ? UINT64_MAX
               : static_cast<uint64_t>(std::max(now, time_of(r))) - static_cast<uint64_t>(std::min(now, time_of(r)));
  };
  int64_t best = match_ == "next" ? after : before;
  if (match_ == "nearest" && distance(after) < distance(before)) best = after;
  return distance(best) <= static_cast<uint64_t>(within_) ? best : -1;
}

namespace {

std::unique_ptr<Step> open_align(const Config& config, const StepContext& context) { return std::make_unique<Align>(config, context); }

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

extern const StepDef step_align;
const StepDef step_align{"align", "puts the row of another table that is nearest in time beside each row", {.options = kAlign}, open_align};

}  // namespace perigee::tables
