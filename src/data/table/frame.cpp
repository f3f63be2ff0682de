#include "src/data/table/frame.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/core/config.h"
#include "src/core/error.h"
#include "src/data/table/time_text.h"
#include "src/io/csv.h"

namespace perigee::tables {
namespace {

constexpr const char* kTypes[] = {"integer", "real", "text", "category", "time", "boolean", "list"};

constexpr Option kColumnOptions[] = {
    {"name", "name", nullptr, ""},    {"type", "name", nullptr, ""},       {"categories", "list of names", "[]", ""},
    {"min", "number", "none", ""},    {"max", "number", "none", ""},       {"pattern", "string", "none", ""},
    {"format", "string", "none", ""}, {"required", "boolean", "false", ""}};
constexpr Option kSchemaOptions[] = {{"columns", "list", nullptr, ""},
                                     {"delimiter", "string", ",", ""},
                                     {"quote", "string", "\"", ""},
                                     {"comment", "string", "none", ""},
                                     {"header", "boolean", "found out", ""},
                                     {"trim", "boolean", "found out", ""},
                                     {"encoding", "string", "utf-8", ""},
                                     {"skip", "integer", "0", "", {0, 1e6}},
                                     {"lines", "string", "none", ""},
                                     {"sequences", "name", "none", "", {}, {"rows", "columns", "padded", "joined"}},
                                     {"separator", "string", "a blank line", ""},
                                     {"missing_values", "list of names", "the usual ones", ""}};
constexpr perigee::Schema kColumnSchema{.options = kColumnOptions}, kTableSchema{.options = kSchemaOptions};

bool frame_is_whole(Type type) { return type == Type::integer || type == Type::time || type == Type::boolean || type == Type::category; }
bool is_bytes(Type type) { return type == Type::text || type == Type::list; }

ColumnSpec spec_of(const Config& config) {
  ColumnSpec spec{.name = config.string("name")};
  const std::vector<std::string> known(std::begin(kTypes), std::end(kTypes));
  const std::string type = config.choice("type", "text", known);
  spec.type = static_cast<Type>(std::find(known.begin(), known.end(), type) - known.begin());
  spec.categories = config.string_list("categories");
  if (config.has("min")) spec.least = config.number("min");
  if (config.has("max")) spec.most = config.number("max");
  spec.pattern = config.string("pattern", "");
  spec.format = config.string("format", "");
  spec.required = config.boolean("required", false);
  if (spec.type == Type::category && spec.categories.empty())
    config.fail("categories", "lists no category", "'" + spec.name + "'", "the names that the column may have");
  return spec;
}

// nothing: the key is absent. One character, or none where the text is empty.
void take_character(const Config& config, const char* key, char* out) {
  if (!config.has(key)) return;
  const std::string text = config.string(key);
  if (text.size() > 1 || text == "\n" || text == "\r") config.fail(key, "must be one character", "'" + text + "'");
  *out = text.empty() ? '\0' : text[0];
}

}  // namespace

const char* type_text(Type type) { return kTypes[static_cast<size_t>(type)]; }

int64_t TableSchema::find(std::string_view name) const {
  for (size_t c = 0; c < columns.size(); ++c)
    if (columns[c].name == name) return static_cast<int64_t>(c);
  return -1;
}

std::vector<std::string> TableSchema::names() const {
  std::vector<std::string> list;
  for (const ColumnSpec& column : columns) list.push_back(column.name);
  return list;
}

size_t TableSchema::at(std::string_view name, const std::string& where) const {
  const int64_t found = find(name);
  if (found >= 0) return static_cast<size_t>(found);
  std::string known;
  for (size_t c = 0; c < columns.size() && c < 16; ++c) known += (c ? ", '" : "'") + columns[c].name.substr(0, 40) + "'";
  throw Error(ErrorKind::data, {.where = where,
                                .what = "there is no such column",
                                .got = "'" + std::string(name.substr(0, 60)) + "'",
                                .expected = "one of " + known,
                                .hint = nearest_hint(name, names())});
}

Json schema_json(const TableSchema& schema, const Dialect* dialect) {
  Json list = Json::array();
  for (const ColumnSpec& spec : schema.columns) {
    Json column(Json::Object{{"name", spec.name}, {"type", type_text(spec.type)}});
    if (spec.type == Type::category) {
      Json names = Json::array();
      for (const std::string& name : spec.categories) names.push(name);
      column.set("categories", std::move(names));
    }
    if (spec.least) column.set("min", *spec.least);
    if (spec.most) column.set("max", *spec.most);
    if (!spec.pattern.empty()) column.set("pattern", spec.pattern);
    if (!spec.format.empty()) column.set("format", spec.format);
    if (spec.required) column.set("required", true);
    list.push(std::move(column));
  }
  Json json(Json::Object{{"columns", std::move(list)}});
  if (dialect == nullptr) return json;
  const auto one = [](char c) { return c == 0 ? std::string() : std::string(1, c); };
  const Dialect usual;
  if (dialect->delimiter != ',') json.set("delimiter", one(dialect->delimiter));
  if (dialect->quote != '"') json.set("quote", one(dialect->quote));
  if (dialect->comment != 0) json.set("comment", one(dialect->comment));
  if (!dialect->encoding.empty()) json.set("encoding", dialect->encoding);
  if (dialect->skip != 0) json.set("skip", dialect->skip);
  if (!dialect->lines.empty()) json.set("lines", dialect->lines);
  if (!dialect->sequences.empty()) json.set("sequences", dialect->sequences);
  if (!dialect->separator.empty()) json.set("separator", dialect->separator);
  if (dialect->header) json.set("header", *dialect->header);
  if (dialect->trim) json.set("trim", *dialect->trim);
  if (dialect->missing != usual.missing) {
    Json names = Json::array();
    for (const std::string& name : dialect->missing) names.push(name);
    json.set("missing_values", std::move(names));
  }
  return json;
}

TableSchema schema_of(const Json& json, const std::string& where, Dialect* dialect) {
  const Config config(json, kTableSchema, where, ErrorKind::data);
  TableSchema schema;
  const Json* list = config.raw("columns");
  if (list == nullptr || !list->is_array() || list->as_array().empty())
    config.fail("columns", "must be a list of columns", list == nullptr ? "nothing" : shown(*list),
                R"([{"name": "age", "type": "integer"}])");
  for (const Json& each : list->as_array()) {
    // "type" is no key of a family here.
    const Config column = config.element(each, "columns[" + std::to_string(schema.columns.size() + 1) + "]").with(kColumnSchema);
    schema.columns.push_back(spec_of(column));
    if (schema.find(schema.columns.back().name) + 1 != static_cast<int64_t>(schema.columns.size()))
      config.fail("columns", "names a column twice", "'" + schema.columns.back().name + "'");
  }
  if (dialect == nullptr) return schema;
  take_character(config, "delimiter", &dialect->delimiter);
  take_character(config, "quote", &dialect->quote);
  take_character(config, "comment", &dialect->comment);
  if (config.has("encoding")) dialect->encoding = config.string("encoding");
  dialect->skip = config.integer_in("skip", 0, 1'000'000, dialect->skip);
  if (config.has("lines")) dialect->lines = config.string("lines");
  if (config.has("sequences")) dialect->sequences = config.string("sequences");
  if (config.has("separator")) dialect->separator = config.string("separator");
  if (config.has("header")) dialect->header = config.boolean("header", false);
  if (config.has("trim")) dialect->trim = config.boolean("trim", false);
  if (config.has("missing_values")) dialect->missing = config.string_list("missing_values");
  return schema;
}

// --- Columns -------------------------------------------------------------------------------------------------------------------

int64_t Column::size() const {
  return static_cast<int64_t>(is_bytes(type) ? ends.size() : frame_is_whole(type) ? whole.size() : real.size());
}

double Column::number(int64_t row) const {
  const auto r = static_cast<size_t>(row);
  if (is_missing(row) || is_bytes(type)) return std::numeric_limits<double>::quiet_NaN();
  return type == Type::real ? real[r] : static_cast<double>(whole[r]);
}

void Column::reserve(int64_t rows) {
  const auto count = static_cast<size_t>(rows);
  if (is_bytes(type)) ends.reserve(count);
  else if (type == Type::real) real.reserve(count);
  else whole.reserve(count);
}

void Column::add_whole(int64_t value) {
  whole.push_back(value);
  if (!missing.empty()) missing.push_back(0);
}

void Column::add_real(double value) {
  real.push_back(value);
  if (!missing.empty()) missing.push_back(0);
}

void Column::add_text(std::string_view value) {
  bytes += value;
  ends.push_back(bytes.size());
  if (!missing.empty()) missing.push_back(0);
}

void Column::add_missing() {
  if (missing.empty()) missing.assign(static_cast<size_t>(size()), 0);
  missing.push_back(1);
  if (is_bytes(type)) ends.push_back(type == Type::text ? bytes.size() : items.size());
  else if (type == Type::real) real.push_back(std::numeric_limits<double>::quiet_NaN());
  else whole.push_back(0);
}

void Column::add_from(const Column& other, int64_t row) {
  const auto r = static_cast<size_t>(row);
  if (row < 0 || other.is_missing(row)) return add_missing();
  if (type == Type::text) return add_text(other.text(row));
  if (type == Type::real) return add_real(other.real[r]);
  if (type != Type::list) return add_whole(other.whole[r]);
  const uint64_t begin = r == 0 ? 0 : other.ends[r - 1];
  items.insert(items.end(), other.items.begin() + static_cast<ptrdiff_t>(begin),
               other.items.begin() + static_cast<ptrdiff_t>(other.ends[r]));
  ends.push_back(items.size());
  if (!missing.empty()) missing.push_back(0);
}

void Column::append(const Column& other) {
  const auto before = static_cast<size_t>(size());
  if (!other.missing.empty() || !missing.empty()) {
    missing.resize(before, 0);
    if (other.missing.empty()) missing.resize(before + static_cast<size_t>(other.size()), 0);
    else missing.insert(missing.end(), other.missing.begin(), other.missing.end());
  }
  whole.insert(whole.end(), other.whole.begin(), other.whole.end());
  real.insert(real.end(), other.real.begin(), other.real.end());
  const uint64_t base = type == Type::list ? items.size() : bytes.size();
  for (const uint64_t end : other.ends) ends.push_back(base + end);
  bytes += other.bytes;
  items.insert(items.end(), other.items.begin(), other.items.end());
}

void Column::set_missing(int64_t row) {
  if (missing.empty()) missing.assign(static_cast<size_t>(size()), 0);
  missing[static_cast<size_t>(row)] = 1;
}

// --- Frames --------------------------------------------------------------------------------------------------------------------

void Frame::add(ColumnSpec spec, Column column, int64_t before) {
  const int64_t old = schema.find(spec.name);
  if (old >= 0) {
    schema.columns[static_cast<size_t>(old)] = std::move(spec);
    columns[static_cast<size_t>(old)] = std::move(column);
    return;
  }
  const auto at = before < 0 ? static_cast<ptrdiff_t>(columns.size()) : static_cast<ptrdiff_t>(before);
  schema.columns.insert(schema.columns.begin() + at, std::move(spec));
  columns.insert(columns.begin() + at, std::move(column));
}

void Frame::remove(size_t column) {
  schema.columns.erase(schema.columns.begin() + static_cast<ptrdiff_t>(column));
  columns.erase(columns.begin() + static_cast<ptrdiff_t>(column));
}

void Frame::take(const std::vector<int64_t>& which) {
  for (Column& column : columns) column = column.rows(which);
  std::vector<int64_t> kept;
  for (const int64_t row : which)
    if (!numbers.empty()) kept.push_back(row < 0 ? 0 : numbers[static_cast<size_t>(row)]);
  numbers = std::move(kept);
  rows = static_cast<int64_t>(which.size());
  sequences.clear();
}

void Frame::append(const Frame& other) {
  for (size_t c = 0; c < columns.size(); ++c) columns[c].append(other.columns[c]);
  rows += other.rows;
}

std::vector<int64_t> Frame::bounds() const { return sequences.empty() ? std::vector<int64_t>{0, rows} : sequences; }

Frame empty_frame(const TableSchema& schema) {
  Frame frame{.schema = schema};
  for (const ColumnSpec& spec : schema.columns) frame.columns.emplace_back(spec.type);
  return frame;
}

// --- Cells ---------------------------------------------------------------------------------------------------------------------

void append_cell(const Column& column, const ColumnSpec& spec, int64_t row, std::string& out) {
  const auto r = static_cast<size_t>(row);
  if (column.is_missing(row)) return;
  char digits[40];
  const auto number = [&](auto value) { out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr); };
  if (column.type == Type::text) out += column.text(row);
  else if (column.type == Type::real) number(column.real[r]);
  else if (column.type == Type::integer) number(column.whole[r]);
  else if (column.type == Type::boolean) out += column.whole[r] ? "true" : "false";
  else if (column.type == Type::category) out += spec.categories[static_cast<size_t>(column.whole[r])];
  else if (column.type == Type::time) append_time(column.whole[r], spec.format, out);
  else
    for (uint64_t i = r == 0 ? 0 : column.ends[r - 1], first = i; i < column.ends[r]; ++i) {
      if (i != first) out += ' ';
      number(column.items[i]);
    }
}

std::string cell_text(const Column& column, const ColumnSpec& spec, int64_t row) {
  std::string text;
  append_cell(column, spec, row, text);
  return text;
}

Json cell_json(const Column& column, const ColumnSpec& spec, int64_t row) {
  const auto r = static_cast<size_t>(row);
  if (column.is_missing(row)) return {};
  if (column.type == Type::integer) return column.whole[r];
  if (column.type == Type::real) return column.real[r];
  if (column.type == Type::boolean) return column.whole[r] != 0;
  if (column.type != Type::list) return cell_text(column, spec, row);
  Json list = Json::array();
  for (uint64_t i = r == 0 ? 0 : column.ends[r - 1]; i < column.ends[r]; ++i) list.push(column.items[i]);
  return list;
}

bool add_parsed(const ColumnSpec& spec, std::string_view text, Column& column) {
  int64_t whole = 0;
  double real = 0;
  switch (spec.type) {
    case Type::text: column.add_text(text); return true;
    case Type::real: {
      const bool infinite = text == "inf" || text == "-inf" || text == "Infinity" || text == "-Infinity";
      if (infinite) real = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
      else if (!csv_number(text, real)) return false;
      column.add_real(real);
      return true;
    }
    case Type::integer: {
      if (text.starts_with('+')) text.remove_prefix(1);
      const auto result = std::from_chars(text.data(), text.data() + text.size(), whole);
      if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) return false;
      break;
    }
    case Type::boolean:
      if (text == "true" || text == "True" || text == "TRUE" || text == "1") whole = 1;
      else if (text != "false" && text != "False" && text != "FALSE" && text != "0") return false;
      break;
    case Type::time:
      if (!(spec.format.empty() ? parse_iso_time(text, whole) : parse_time(text, spec.format, whole))) return false;
      break;
    case Type::category: {
      const auto found = std::find(spec.categories.begin(), spec.categories.end(), text);
      if (found == spec.categories.end()) return false;
      whole = found - spec.categories.begin();
      break;
    }
    case Type::list: return false;
  }
  column.add_whole(whole);
  return true;
}

}  // namespace perigee::tables
