// join: rows of two tables with equal keys side by side.
#include "src/data/table/steps/join.h"

#include <algorithm>
#include <numeric>

#include "src/core/error.h"
#include "src/data/table/loops/conditions.h"
#include "src/data/table/loops/groups.h"

namespace perigee::tables {

Join::Join(const Config& config, const StepContext& context)
    : right_(config, "join", context), on_(config.string_list("on")), how_(config.string("how", "inner")), where_(context.where) {
  if (on_.empty()) config.fail("on", "names no keys, or not as many as 'right_on'");
}

// A file that is larger than the memory stays where it is: spilled() reads it.
void Join::fit(const Frame&) {
  right_.read();
  if (right_.is_read()) index();
}

void Join::set_state(const Config& state) {
  right_.set_state(state);
  index();
}

void Join::set_right(Frame right) {
  right_.set(std::move(right));
  index();
}

void Join::apply(Frame& frame) const {
  std::vector<uint8_t> used(static_cast<size_t>(right_.frame().rows));
  join_rows(frame, used, keeps_right());
}

std::unique_ptr<FrameSink> Join::spilled(const TableRoom& room, const UseFrame& next) const {
  return right_.is_large() ? spilled_join(room, *this, next) : outer_join(*this, next);
}

void Join::join_rows(Frame& frame, std::vector<uint8_t>& used, bool rest) const {
  const std::vector<size_t> left = columns_of(frame, on_, where_);
  std::vector<int64_t> left_rows, right_rows;
  if (looks_up(frame, left)) return apply_table(frame, frame.columns[left[0]]);
  for (int64_t r = 0; r < frame.rows; ++r) {
    const size_t before = right_rows.size();
    for (auto [at, end] = rows_of_.equal_range(key_hash(frame, left, r)); at != end; ++at)
      if (right_.same(frame, left, r, at->second)) right_rows.push_back(at->second);
    std::sort(right_rows.begin() + static_cast<ptrdiff_t>(before), right_rows.end());
    for (size_t i = before; i < right_rows.size(); ++i) used[static_cast<size_t>(right_rows[i])] = 1;
    if (right_rows.size() == before && (how_ == "left" || how_ == "outer")) right_rows.push_back(-1);
    left_rows.resize(right_rows.size(), r);
    if (right_rows.size() > (size_t{1} << 32)) throw Error(ErrorKind::resources, {.where = where_, .what = "the join has too many rows"});
  }
  if (rest)
    for (int64_t r = 0; r < right_.frame().rows; ++r)
      if (!used[static_cast<size_t>(r)]) left_rows.push_back(-1), right_rows.push_back(r);
  Frame out{.rows = static_cast<int64_t>(left_rows.size())};
  for (size_t c = 0; c < frame.columns.size(); ++c) {
    const auto key = std::find(left.begin(), left.end(), c);
    Column column = frame.columns[c].rows(left_rows);
    if (key != left.end() && rest)
      fill_key(column, frame.schema.columns[c], right_.frame(), right_.keys()[static_cast<size_t>(key - left.begin())], left_rows,
               right_rows);
    out.add(frame.schema.columns[c], std::move(column));
  }
  add_right_columns(out, right_.frame(), right_.keys(), right_rows);
  for (const int64_t row : left_rows)
    if (!frame.numbers.empty()) out.numbers.push_back(row < 0 ? 0 : frame.numbers[static_cast<size_t>(row)]);
  frame = std::move(out);
}

// One whole number on either side is looked up in a list of the right rows, where each has its own.
bool Join::looks_up(const Frame& frame, const std::vector<size_t>& left) const {
  if (table_of_.empty() || left.size() != 1) return false;
  const Column& key = frame.columns[left[0]];
  return (key.type == Type::integer || key.type == Type::time) && key.type == right_.frame().columns[right_.keys()[0]].type &&
         key.missing.empty();
}

void Join::apply_table(Frame& frame, const Column& key) const {
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
  add_right_columns(frame, right_.frame(), right_.keys(), found);
}
void Join::list_rows() {
  int64_t most = 0;
  if (right_.keys().size() != 1 || (how_ != "inner" && how_ != "left") ||
      !small_range(right_.frame().columns[right_.keys()[0]], least_, most))
    return;
  table_of_.assign(static_cast<size_t>(most - least_) + 1, -1);
  for (int64_t r = 0; r < right_.frame().rows; ++r) {
    int64_t& row = table_of_[static_cast<size_t>(right_.frame().columns[right_.keys()[0]].whole[static_cast<size_t>(r)] - least_)];
    if (row >= 0) return table_of_.clear();  // a key that comes twice
    row = r;
  }
}

void Join::index() {
  list_rows();
  for (int64_t r = 0; r < right_.frame().rows; ++r) rows_of_.emplace(key_hash(right_.frame(), right_.keys(), r), r);
}

// Keys of rows that only the right table has.
void Join::fill_key(Column& column, ColumnSpec& spec, const Frame& right, size_t key, const std::vector<int64_t>& left_rows,
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

Frame Join::right_only(TableSchema& left, const std::vector<size_t>& left_keys, const Frame& right, const std::vector<size_t>& right_keys,
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
  add_right_columns(out, right, right_keys, all);
  if (numbered) out.numbers.assign(all.size(), 0);
  return out;
}

namespace {

std::unique_ptr<Step> open_join(const Config& config, const StepContext& context) { return std::make_unique<Join>(config, context); }

constexpr Option kJoin[] = {{"join", "file or table", nullptr, "the right table: a file, or {columns, rows}"},
                            {"on", "list of names", nullptr, "the keys"},
                            {"right_on", "list of names", "on", "their names in the right table"},
                            {"how", "name", "inner", "whose rows stay without a partner", {}, {"inner", "left", "right", "outer"}}};

}  // namespace

extern const StepDef step_join;
const StepDef step_join{"join", "puts rows of another table with equal keys beside each row", {.options = kJoin}, open_join};

}  // namespace perigee::tables
