#include "src/data/table.h"

#include <algorithm>
#include <deque>
#include <map>

#include "src/core/error.h"
#include "src/io/csv.h"

namespace perigee {
namespace {

constexpr char kAbsent[] = "(absent)";
constexpr std::string_view kNoCell(kAbsent, sizeof kAbsent - 1);
constexpr size_t kMostCells = size_t{1} << 28;
constexpr size_t kMostKeys = 1 << 16;

// Only words in the first row, and a number below one of them.
bool looks_like_header(const CsvTable& table) {
  if (table.rows < 2) return false;
  double ignored = 0;
  bool number_below = false;
  for (int64_t c = 0; c < table.columns; ++c) {
    if (table.cell(0, c).empty() || csv_number(table.cell(0, c), ignored)) return false;
    number_below |= csv_number(table.cell(1, c), ignored);
  }
  return number_below;
}

bool has_header(const CsvTable& table, const CsvFormat& format) {
  if (format.header) return *format.header;
  for (int64_t c = 0; c < table.columns && table.rows > 0; ++c)
    if (std::find(format.expected.begin(), format.expected.end(), table.cell(0, c)) != format.expected.end()) return true;
  return looks_like_header(table);
}

// The texts of JSON cells; a deque, so that views of short ones stay valid.
struct Texts {
  std::deque<std::string> all;
  std::string_view keep(std::string text) { return all.emplace_back(std::move(text)); }
};

class RecordTable {
 public:
  explicit RecordTable(const std::string& where) : texts_(std::make_shared<Texts>()) {
    table_.where = where;
    table_.named = table_.of_records = true;
  }

  Table of_list(const Json::Array& records) {
    for (const Json& record : records) {
      ++table_.rows;
      if (!record.is_object()) fail("a record is not an object", record.type_name(), "an object: {\"age\": 41, \"city\": \"Rome\"}");
      for (const auto& [key, value] : record.as_object()) add_name(key);
    }
    check_size();
    table_.cells.assign(static_cast<size_t>(table_.rows * table_.columns), kNoCell);
    for (size_t r = 0; r < records.size(); ++r)
      for (const auto& [key, value] : records[r].as_object())
        table_.cells[r * static_cast<size_t>(table_.columns) + number_of_.at(key)] = text_of(value, static_cast<int64_t>(r), key);
    return finish();
  }

  Table of_columns(const Json::Object& columns) {
    for (const auto& [key, list] : columns) {
      add_name(key);
      const auto size = static_cast<int64_t>(list.as_array().size());
      if (columns.front().first != key && size != table_.rows)
        throw Error(ErrorKind::data, {.where = table_.where,
                                      .what = "column '" + key + "' has another length than '" + columns.front().first + "'",
                                      .got = std::to_string(size),
                                      .expected = std::to_string(table_.rows)});
      table_.rows = size;
    }
    check_size();
    table_.cells.assign(static_cast<size_t>(table_.rows * table_.columns), kNoCell);
    for (const auto& [key, list] : columns)
      for (size_t r = 0; r < list.as_array().size(); ++r)
        table_.cells[r * static_cast<size_t>(table_.columns) + number_of_.at(key)] =
            text_of(list.as_array()[r], static_cast<int64_t>(r), key);
    return finish();
  }

 private:
  [[noreturn]] void fail(std::string what, std::string got, std::string expected) const {
    throw Error(ErrorKind::data, {table_.place(table_.rows - 1), std::move(what), std::move(got), std::move(expected), ""});
  }

  void add_name(const std::string& key) {
    if (!number_of_.try_emplace(key, number_of_.size()).second) return;
    if (number_of_.size() > kMostKeys)
      throw Error(ErrorKind::data, {.where = table_.where, .what = "the records have more than " + std::to_string(kMostKeys) + " keys"});
    table_.names.push_back(key);
    ++table_.columns;
  }

  void check_size() const {
    if (table_.rows == 0 || table_.columns == 0)
      throw Error(ErrorKind::data, {.where = table_.where, .what = "there are no records", .expected = "at least one object with values"});
    if (static_cast<size_t>(table_.rows) > kMostCells / static_cast<size_t>(table_.columns))
      throw Error(ErrorKind::resources, {.where = table_.where, .what = "the records have too many values"});
  }

  std::string_view text_of(const Json& value, int64_t row, const std::string& key) {
    if (value.is_null()) return {};
    if (value.is_string()) return texts_->keep(value.as_string());
    if (value.is_number() || value.is_bool()) return texts_->keep(value.dump());
    throw Error(ErrorKind::data, {.where = table_.place(row) + ": '" + key + "'",
                                  .what = "the value of a column has the wrong type",
                                  .got = value.type_name(),
                                  .expected = "a number, a text, true, false or null"});
  }

  Table finish() {
    for (int64_t r = 1; r <= table_.rows; ++r) table_.lines.push_back(r);
    table_.owner = texts_;
    return std::move(table_);
  }

  Table table_;
  std::shared_ptr<Texts> texts_;
  std::map<std::string, size_t> number_of_;
};

}  // namespace

bool is_no_cell(std::string_view cell) { return cell.data() == kNoCell.data(); }

std::string Table::place(int64_t row) const {
  const bool listed = static_cast<size_t>(row) < lines.size();
  const std::string number = std::to_string(stored != nullptr ? stored->number(row) : listed ? lines[static_cast<size_t>(row)] : row + 1);
  return where + (of_records ? ": record " : ":") + number;
}

int64_t Table::find(std::string_view name) const {
  for (size_t c = 0; c < names.size(); ++c)
    if (names[c] == name) return static_cast<int64_t>(c);
  return -1;
}

std::string Table::names_text(size_t most) const {
  std::string text;
  for (size_t c = 0; c < names.size() && c < most; ++c) text += (c ? ", '" : "'") + names[c].substr(0, 40) + "'";
  return names.size() > most ? text + ", ... (" + std::to_string(names.size()) + ")" : text;
}

Table csv_table(std::string_view text, std::shared_ptr<const void> owner, const std::string& where, const CsvFormat& format) {
  struct Kept {
    std::shared_ptr<const void> owner;
    CsvTable parsed;
    Texts numbers;  // with decimal points
  };
  auto kept = std::make_shared<Kept>();
  kept->owner = std::move(owner);
  kept->parsed = parse_csv(text, where, format.delimiter, format.header.value_or(false));
  if (!format.header && has_header(kept->parsed, format)) kept->parsed = parse_csv(text, where, format.delimiter, true);
  CsvTable& parsed = kept->parsed;
  Table table{.where = where, .names = parsed.header, .named = !parsed.header.empty(), .columns = parsed.columns, .rows = parsed.rows};
  if (table.rows == 0)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = table.named ? "the table has a header line and no rows" : "the table has no rows",
                                  .expected = "at least one row"});
  for (int64_t c = 0; table.names.size() < static_cast<size_t>(table.columns); ++c) table.names.push_back("c" + std::to_string(c));
  table.equal_name = tell_apart(table.names);
  table.cells = std::move(parsed.cells);
  if (format.decimal == ',')
    for (std::string_view& cell : table.cells)
      if (std::string number = without_decimal_comma(cell); !number.empty()) cell = kept->numbers.keep(std::move(number));
  table.lines = std::move(parsed.lines);
  table.owner = std::move(kept);
  return table;
}

Table json_table(const Json& records, const std::string& where) {
  RecordTable table(where);
  if (records.is_array()) return table.of_list(records.as_array());
  if (!records.is_object())
    throw Error(
        ErrorKind::data,
        {.where = where, .what = "these are no records", .got = records.type_name(), .expected = "an object, or a list of objects"});
  const Json::Object& object = records.as_object();
  const bool columns =
      !object.empty() && std::all_of(object.begin(), object.end(), [](const auto& member) { return member.second.is_array(); });
  return columns ? table.of_columns(object) : table.of_list({records});
}

Json json_records(std::string_view text, const std::string& where) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const auto parse = [&](std::string_view part, const std::string& at) {
    try {
      return Json::parse(part, at);
    } catch (const Error& error) {
      throw Error(ErrorKind::data, error.parts());
    }
  };
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) throw Error(ErrorKind::data, {.where = where, .what = "there are no records"});
  // A document may be spread over lines; JSON Lines has a whole object on the first, and more on others.
  const size_t end = std::min(text.find('\n', first), text.size());
  const size_t last = text.find_last_not_of(" \t\r", end - 1);
  const bool more = text.find_first_not_of(" \t\r\n", end) != text.npos;
  if (!more || text[first] != '{' || text[last] != '}') return parse(text, where);
  Json list = Json::array();
  int64_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t stop = std::min(text.find('\n', at), text.size());
    const std::string_view part = text.substr(at, stop - at);
    ++line;
    at = stop + 1;
    if (part.find_first_not_of(" \t\r") == part.npos) continue;
    Json record = parse(part, where + ":" + std::to_string(line));
    if (!record.is_object())
      throw Error(ErrorKind::data,
                  {.where = where + ":" + std::to_string(line), .what = "a line is not an object", .got = record.type_name()});
    list.push(std::move(record));
  }
  return list;
}

}  // namespace perigee
