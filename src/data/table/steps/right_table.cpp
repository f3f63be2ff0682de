#include "src/data/table/steps/right_table.h"

#include <algorithm>
#include <optional>

#include "src/core/error.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

constexpr int64_t kMostKept = 1'000'000;

}  // namespace

uint64_t key_hash(const Frame& frame, const std::vector<size_t>& columns, int64_t row) {
  uint64_t all = 0;
  for (const size_t c : columns) all = (all ^ cell_hash(frame.columns[c], frame.schema.columns[c], row)) * 0x9e3779b97f4a7c15;
  return all;
}

void add_right_columns(Frame& out, const Frame& right, const std::vector<size_t>& left_out, const std::vector<int64_t>& rows) {
  for (size_t c = 0; c < right.columns.size(); ++c) {
    if (std::find(left_out.begin(), left_out.end(), c) != left_out.end()) continue;
    ColumnSpec spec = right.schema.columns[c];
    if (out.schema.find(spec.name) >= 0) spec.name += "_right";
    spec.required = false;
    out.add(std::move(spec), right.columns[c].rows(rows));
  }
}

RightTable::RightTable(const Config& config, const char* key, const StepContext& context)
    : table_(*config.raw(key)), context_(context), on_(config.has("right_on") ? config.string_list("right_on") : config.string_list("on")) {
  if (on_.size() != config.string_list("on").size()) config.fail("on", "names no keys, or not as many as 'right_on'");
}

std::string RightTable::path() const { return path_in(context_.folder, table_.as_string()); }

void RightTable::read() {
  if (!table_.is_string()) return set(given(table_));
  std::optional<Frame> right = TableFile(path(), {.threads = context_.room.threads}).all_within(context_.room.part());
  large_ = !right;
  if (right) set(std::move(*right));
}

void RightTable::set(Frame right) {
  right_ = std::move(right);
  keys_ = keys_of(right_.schema);
  read_ = true;
}

void RightTable::set_state(const Config& state) {
  set(state.json().is_string() ? read_table(path_in(context_.folder, state.json().as_string())) : given(state.json()));
}

std::vector<size_t> RightTable::keys_of(const TableSchema& schema) const {
  std::vector<size_t> keys;
  for (const std::string& name : on_) keys.push_back(schema.at(name, context_.where + ": the right table"));
  return keys;
}

// A table that stands in the step.
Frame RightTable::given(const Json& json) const {
  const Config config(json, context_.where, ErrorKind::data);
  const Json* rows = config.raw("rows");
  Frame frame = empty_frame(
      schema_of(Json(Json::Object{{"columns", config.raw("columns") != nullptr ? *config.raw("columns") : Json()}}), context_.where));
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

Json RightTable::state() const {
  if (large_ || right_.rows * static_cast<int64_t>(right_.columns.size()) > kMostKept)
    throw Error(ErrorKind::data, {.where = context_.where,
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

bool RightTable::same(const Frame& frame, const std::vector<size_t>& left, int64_t row, int64_t right_row) const {
  for (size_t i = 0; i < left.size(); ++i)
    if (frame.columns[left[i]].is_missing(row) || !same_cell(frame.columns[left[i]], frame.schema.columns[left[i]], row,
                                                             right_.columns[keys_[i]], right_.schema.columns[keys_[i]], right_row))
      return false;
  return true;
}

}  // namespace perigee::tables
