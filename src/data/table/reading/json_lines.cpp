#include "src/data/table/reading/json_lines.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/data/table/reading/guess.h"

namespace perigee::tables {
namespace {

bool for_each_line(std::string_view text, const std::function<void(std::string_view line, int64_t number)>& use) {
  int64_t number = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = line_end(text, at);
    const std::string_view line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r\n") != line.npos) use(line, number);
    at = end;
  }
  return true;
}

Json parsed_line(std::string_view line, const std::string& where) {
  try {
    return Json::parse(line, where);
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
}

std::string json_cell_text(const Json& value) { return value.is_string() ? value.as_string() : value.dump(); }

}  // namespace

TableSchema json_lines_schema(std::string_view head, const std::string& path, int64_t skipped_lines) {
  std::vector<std::string> names;
  std::unordered_map<std::string, size_t> places;  // of names
  std::vector<std::vector<std::string>> texts;
  std::vector<std::vector<Type>> kinds;
  for_each_line(head, [&](std::string_view line, int64_t number) {
    const std::string where = path + ":" + std::to_string(skipped_lines + number + 1);
    const Json json = parsed_line(line, where);
    if (!json.is_object())
      throw Error(
          ErrorKind::data,
          {.where = where, .what = "the line has no object", .got = json.type_name(), .expected = R"({"age": 41, "city": "Rome"})"});
    for (const auto& [key, value] : json.as_object()) {
      const auto [found, fresh] = places.emplace(key, names.size());
      if (fresh) {
        if (names.size() >= kMostFields)
          throw Error(ErrorKind::data,
                      {.where = where, .what = "the objects have too many keys", .expected = "at most " + std::to_string(kMostFields)});
        names.push_back(key);
        texts.emplace_back();
        kinds.emplace_back();
      }
      const size_t c = found->second;
      if (value.is_null() || texts[c].size() >= kRowsLooked) continue;
      texts[c].push_back(json_cell_text(value));
      kinds[c].push_back(value.is_bool()     ? Type::boolean
                         : value.is_int()    ? Type::integer
                         : value.is_number() ? Type::real
                         : value.is_array()  ? Type::list
                                             : Type::text);
    }
  });
  TableSchema schema;
  for (size_t c = 0; c < names.size(); ++c) {
    Type type = kinds[c].empty() ? Type::text : kinds[c][0];
    for (const Type kind : kinds[c])
      if (kind != type)
        type = (kind == Type::integer || kind == Type::real) && (type == Type::integer || type == Type::real) ? Type::real : Type::text;
    if (type == Type::text && !kinds[c].empty() &&
        std::all_of(texts[c].begin(), texts[c].end(), [](const std::string& t) { return reads_as(Type::time, t); }))
      type = Type::time;
    if (type == Type::list && !std::all_of(texts[c].begin(), texts[c].end(), [&](const std::string& t) {
          const Json list = Json::parse(t, path);
          return std::all_of(list.as_array().begin(), list.as_array().end(), [](const Json& item) { return item.is_number(); });
        }))
      type = Type::text;
    schema.columns.push_back({.name = names[c], .type = type});
  }
  return schema;
}

void parse_json_lines(std::string_view block, const TableSchema& schema, const std::string& where, int64_t first_line, OnMisfit on_misfit,
                      CsvBlock* out) {
  out->frame = empty_frame(schema);
  out->first = {};
  out->misfit_cells.clear();
  out->misfits.clear();
  out->lines = std::count(block.begin(), block.end(), '\n');
  for_each_line(block, [&](std::string_view line, int64_t number) {
    const std::string at = where + ":" + std::to_string(first_line + number);
    const Json json = parsed_line(line, at);
    if (!json.is_object())
      throw Error(ErrorKind::data,
                  {.where = at, .what = "the line has no object", .got = json.type_name(), .expected = R"({"age": 41, "city": "Rome"})"});
    std::vector<uint8_t> done(schema.columns.size());
    const auto misfit = [&](size_t c, const std::string& text) {
      if (out->first.line < 0) out->first = {.line = number, .column = c, .text = text.substr(0, 60)};
      if (c == SIZE_MAX) return;
      if (on_misfit == OnMisfit::stop)
        throw Error(ErrorKind::data,
                    {.where = at,
                     .what = "the value does not fit the column '" + schema.columns[c].name + "'",
                     .got = "'" + text.substr(0, 40) + "'",
                     .expected = std::string(schema.columns[c].type == Type::integer ? "an " : "a ") + type_text(schema.columns[c].type)});
      if (out->misfits.empty()) out->misfits.assign(schema.columns.size(), 0);
      ++out->misfits[c];
      if (out->misfit_cells.size() < kMostMisfits) out->misfit_cells.push_back({number, out->frame.rows, c, text.substr(0, 60)});
    };
    for (const auto& [key, value] : json.as_object()) {
      const int64_t found = schema.find(key);
      if (found < 0) {
        if (out->first.line < 0) out->first = {.line = number, .column = SIZE_MAX, .text = key};
        continue;
      }
      const auto c = static_cast<size_t>(found);
      Column& column = out->frame.columns[c];
      if (value.is_null()) continue;
      if (column.type == Type::list && value.is_array()) {
        for (const Json& item : value.as_array()) column.items.push_back(item.is_number() ? item.as_number() : 0);
        column.ends.push_back(column.items.size());
        if (!column.missing.empty()) column.missing.push_back(0);
        done[c] = 1;
      } else if (const std::string text = json_cell_text(value); add_parsed(schema.columns[c], text, column)) {
        done[c] = 1;
      } else {
        misfit(c, text);
      }
    }
    for (size_t c = 0; c < done.size(); ++c)
      if (!done[c]) out->frame.columns[c].add_missing();
    ++out->frame.rows;
  });
}

}  // namespace perigee::tables
