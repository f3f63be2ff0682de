#include "src/data/table/steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "src/core/error.h"
#include "src/data/table/loops/conditions.h"
#include "src/data/table/loops/gather.h"
#include "src/data/table/loops/groups.h"
#include "src/data/table/loops/texts.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

class FunctionStep : public Step {
 public:
  enum class By : uint8_t { rows, sequences, table };
  FunctionStep(std::function<void(Frame&)> apply, By by, SpillStep spilled = {})
      : apply_(std::move(apply)), by_(by), spilled_(std::move(spilled)) {}
  void apply(Frame& frame) const override { apply_(frame); }
  bool by_rows() const override { return by_ == By::rows; }
  bool by_sequences() const override { return by_ != By::table; }
  std::unique_ptr<FrameSink> spilled(const TableRoom& room, const UseFrame& next) const override {
    return spilled_ ? spilled_(room, next) : nullptr;
  }

 private:
  std::function<void(Frame&)> apply_;
  By by_;
  SpillStep spilled_;
};

constexpr size_t kMostStepsSteps = 1000;

const StepDef& def_of(const Json& step, const std::string& where) {
  std::vector<std::string> names;
  for (const StepDef* def : step_defs()) names.push_back(def->name);
  if (!step.is_object() || step.as_object().empty())
    throw Error(
        ErrorKind::data,
        {.where = where, .what = "a step is an object whose key is a verb", .got = shown(step), .expected = R"({"filter": "age > 18"})"});
  // Tables of a script have no order: the verb is the key that is one.
  const StepDef* found = nullptr;
  for (const auto& [key, value] : step.as_object())
    for (const StepDef* def : step_defs())
      if (key == def->name && (found == nullptr || (found->schema.find(key) == nullptr && def->schema.find(found->name) != nullptr)))
        found = def;
  if (found != nullptr) return *found;
  for (const auto& [key, value] : step.as_object()) {
    const std::string hint = key.starts_with('@') ? "" : nearest_hint(key, names);
    if (key.starts_with('@') && step.as_object().size() > 1) continue;
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    throw Error(
        ErrorKind::data,
        {.where = where, .what = "there is no such step", .got = "'" + key.substr(0, 40) + "'", .expected = "one of " + all, .hint = hint});
  }
  return def_of({}, where);
}

uint64_t steps_mixed(uint64_t x) {  // splitmix64
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

std::unique_ptr<Step> step_of(std::function<void(Frame&)> apply, bool by_rows) {
  return std::make_unique<FunctionStep>(std::move(apply), by_rows ? FunctionStep::By::rows : FunctionStep::By::table);
}

std::unique_ptr<Step> step_by_sequences(std::function<void(Frame&)> apply, SpillStep spilled) {
  return std::make_unique<FunctionStep>(std::move(apply), FunctionStep::By::sequences, std::move(spilled));
}

std::unique_ptr<Step> step_of_table(std::function<void(Frame&)> apply, SpillStep spilled) {
  return std::make_unique<FunctionStep>(std::move(apply), FunctionStep::By::table, std::move(spilled));
}

bool is_numeric(Type type) { return type == Type::integer || type == Type::real || type == Type::boolean; }

std::vector<size_t> columns_of(const Frame& frame, const std::vector<std::string>& names, const std::string& where, bool (*fits)(Type)) {
  std::vector<size_t> list;
  if (names.size() == 1 && names[0] == "*" && frame.schema.find("*") < 0) {
    for (size_t c = 0; c < frame.columns.size(); ++c)
      if (fits == nullptr || fits(frame.columns[c].type)) list.push_back(c);
    return list;
  }
  for (const std::string& name : names) {
    list.push_back(frame.schema.at(name, where));
    const Type type = frame.columns[list.back()].type;
    if (fits != nullptr && !fits(type))
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "the column '" + name + "' has a type that this step does not take",
                                    .got = type_text(type),
                                    .hint = "a step before it converts: {\"derive\": {\"" + name + "\": \"real(" + name + ")\"}}"});
  }
  return list;
}

uint64_t cell_hash(const Column& column, const ColumnSpec& spec, int64_t row) {
  if (column.is_missing(row)) return 0x9e3779b97f4a7c15;
  if (column.type == Type::text) return xxh3_64(as_bytes(column.text(row)));
  if (column.type == Type::category) return xxh3_64(as_bytes(spec.categories[static_cast<size_t>(column.whole[static_cast<size_t>(row)])]));
  if (column.type == Type::list) return xxh3_64(as_bytes(cell_text(column, spec, row)));
  return steps_mixed(std::bit_cast<uint64_t>(column.number(row) + 0.0));  // -0 is 0; an integer the same real
}

bool same_cell(const Column& a, const ColumnSpec& a_spec, int64_t a_row, const Column& b, const ColumnSpec& b_spec, int64_t b_row) {
  if (a.is_missing(a_row) || b.is_missing(b_row)) return a.is_missing(a_row) && b.is_missing(b_row);
  const auto texts = [](Type type) { return type == Type::text || type == Type::category; };
  const auto text = [](const Column& c, const ColumnSpec& spec, int64_t row) -> std::string_view {
    return c.type == Type::text ? c.text(row) : std::string_view(spec.categories[static_cast<size_t>(c.whole[static_cast<size_t>(row)])]);
  };
  if (a.type == Type::category && b.type == Type::category && &a_spec == &b_spec)
    return a.whole[static_cast<size_t>(a_row)] == b.whole[static_cast<size_t>(b_row)];
  if (texts(a.type) && texts(b.type)) return text(a, a_spec, a_row) == text(b, b_spec, b_row);
  if (texts(a.type) != texts(b.type)) return false;
  if (a.type == Type::list || b.type == Type::list) return a.type == b.type && cell_text(a, a_spec, a_row) == cell_text(b, b_spec, b_row);
  if (a.type != Type::real && b.type != Type::real) return a.whole[static_cast<size_t>(a_row)] == b.whole[static_cast<size_t>(b_row)];
  const double x = a.number(a_row), y = b.number(b_row);
  return x == y || (std::isnan(x) && std::isnan(y));
}

std::vector<int64_t> group_rows(const Frame& frame, const std::vector<size_t>& columns, std::vector<int64_t>* first) {
  std::vector<int64_t> groups;
  if (int64_t least = 0, most = 0; columns.size() == 1 && small_range(frame.columns[columns[0]], least, most)) {
    groups_of_range(frame.columns[columns[0]], least, most, groups, *first);
    return groups;
  }
  if (columns.size() == 1 && frame.columns[columns[0]].type == Type::text && frame.columns[columns[0]].missing.empty()) {
    TextTable table;
    number_texts(frame.columns[columns[0]], table, groups, *first);
    return groups;
  }
  groups.resize(static_cast<size_t>(frame.rows));
  size_t slots = 1024;
  std::vector<int64_t> table(slots, -1);
  std::vector<uint64_t> hashes;  // of each group
  first->clear();
  for (int64_t r = 0; r < frame.rows; ++r) {
    uint64_t hash = 0;
    for (const size_t c : columns) hash = steps_mixed(hash * 31 + cell_hash(frame.columns[c], frame.schema.columns[c], r));
    size_t slot = hash & (slots - 1);
    for (;; slot = (slot + 1) & (slots - 1)) {
      const int64_t group = table[slot];
      if (group < 0) break;
      const auto same = [&](size_t c) {
        const ColumnSpec& spec = frame.schema.columns[c];
        return same_cell(frame.columns[c], spec, r, frame.columns[c], spec, (*first)[static_cast<size_t>(group)]);
      };
      if (hashes[static_cast<size_t>(group)] == hash && std::all_of(columns.begin(), columns.end(), same)) break;
    }
    if (table[slot] < 0) {
      table[slot] = static_cast<int64_t>(first->size());
      first->push_back(r);
      hashes.push_back(hash);
    }
    groups[static_cast<size_t>(r)] = table[slot];
    if (first->size() * 2 < slots) continue;
    slots *= 4;
    table.assign(slots, -1);
    for (size_t group = 0; group < hashes.size(); ++group) {
      size_t at = hashes[group] & (slots - 1);
      while (table[at] >= 0) at = (at + 1) & (slots - 1);
      table[at] = static_cast<int64_t>(group);
    }
  }
  return groups;
}

void keep_rows(Frame& frame, const std::vector<uint8_t>& stays) {
  std::vector<int64_t> rows, sequences;
  const std::vector<int64_t> bounds = frame.bounds();
  const bool has_sequences = !frame.sequences.empty();
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    const size_t before = rows.size();
    rows_that_stay(stays, bounds[s], bounds[s + 1], rows);
    if (has_sequences && sequences.empty()) sequences.push_back(0);
    if (has_sequences && rows.size() > before) sequences.push_back(static_cast<int64_t>(rows.size()));
  }
  frame.take(rows);
  frame.sequences = std::move(sequences);
}

int compare_cells(const Column& left, int64_t a, const Column& right, int64_t b) {
  const bool a_missing = left.is_missing(a), b_missing = right.is_missing(b);
  if (a_missing || b_missing) return a_missing && b_missing ? 0 : a_missing ? 2 : -2;
  if (left.type == Type::text) {
    const int result = left.text(a).compare(right.text(b));
    return result < 0 ? -1 : result > 0;
  }
  if (left.type == Type::list) return 0;
  if (left.type != Type::real) {
    const int64_t x = left.whole[static_cast<size_t>(a)], y = right.whole[static_cast<size_t>(b)];
    return x < y ? -1 : x > y;
  }
  const double x = left.real[static_cast<size_t>(a)], y = right.real[static_cast<size_t>(b)];
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y) ? 0 : std::isnan(x) ? 2 : -2;
  return x < y ? -1 : x > y;
}

std::vector<int64_t> sorted_rows(const Frame& frame, const std::vector<size_t>& columns, const std::vector<bool>& descending,
                                 std::vector<int64_t> rows) {
  if (columns.size() == 1 && frame.columns[columns[0]].type != Type::text && frame.columns[columns[0]].type != Type::list)
    return rows_by_number(frame.columns[columns[0]], descending[0], rows);
  std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const Column& column = frame.columns[columns[i]];
      const int result = compare_cells(column, a, column, b);
      if (result == 0) continue;
      return descending[std::min(i, descending.size() - 1)] && std::abs(result) < 2 ? result > 0 : result < 0;
    }
    return false;
  });
  return rows;
}

Steps::Steps(const Json& list, const std::string& where, const std::string& folder, const Json& states, const TableRoom& room) {
  if (list.is_null()) return;
  if (!list.is_array() || list.as_array().size() > kMostStepsSteps)
    throw Error(ErrorKind::data,
                {.where = where, .what = "steps are a list", .got = shown(list), .expected = R"([{"filter": "age > 18"}, ...])"});
  const Json::Array* kept = states.is_array() ? &states.as_array() : nullptr;
  if (kept != nullptr && kept->size() != list.as_array().size())
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the fitted states are not those of these steps",
                                  .got = std::to_string(kept->size()),
                                  .expected = std::to_string(list.as_array().size())});
  for (const Json& each : list.as_array()) {
    const std::string number = where + ": step " + std::to_string(steps_.size() + 1);
    const StepDef& def = def_of(each, number);
    const std::string at = number + " (" + def.name + ")";
    const Config config(each, def.schema, at, ErrorKind::data);
    std::unique_ptr<Step> step = def.open(config, {.where = at, .folder = folder, .room = room});
    if (kept != nullptr)
      if (const Json& state = (*kept)[steps_.size()]; !state.is_null()) step->set_state(Config(state, at + ": fitted", ErrorKind::data));
    if (!step->is_fitted() && step->fits_alone()) step->fit({});
    steps_.push_back({at, std::move(step), def.rows});
  }
}

bool Steps::by_rows() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Named& named) { return named.step->by_rows(); });
}

bool Steps::only_spilled() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Named& named) { return named.step->only_spilled(); });
}

bool Steps::is_fitted() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Named& named) { return named.step->is_fitted(); });
}

void Steps::run(Frame& frame) {
  for (const Named& named : steps_) {
    if (named.step->is_fitted()) named.step->apply(frame);
    else named.step->fit_and_apply(frame);
  }
}

void Steps::apply(Frame& frame) const {
  for (const Named& named : steps_) named.step->apply(frame);
}

void Steps::apply_to_sequences(Frame& frame) const {
  for (const Named& named : steps_)
    if (named.rows != Rows::chooses) named.step->apply(frame);
}

void Steps::apply_to_each(Frame& frame) const {
  for (const Named& named : steps_) {
    if (named.rows == Rows::chooses) continue;
    if (named.rows == Rows::remakes)
      throw Error(ErrorKind::data, {.where = named.where,
                                    .what = "the step makes other rows, so that no record has an answer of its own",
                                    .hint = "prepare the file by `perigee data convert --steps`, and leave the step out of the job"});
    named.step->apply(frame);
  }
}

Json Steps::states() const {
  Json list = Json::array();
  for (const Named& named : steps_) list.push(named.step->state());
  return list;
}

}  // namespace perigee::tables
