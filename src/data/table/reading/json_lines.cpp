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

namespace {

// The objects of a block as rows. A column that no key has may be called by a path: c.x is the key x of the object c.
class JsonRows {
 public:
  JsonRows(const TableSchema& schema, const std::string& where, int64_t first_line, OnMisfit on_misfit, CsvBlock& out)
      : schema_(schema), where_(where), first_line_(first_line), on_misfit_(on_misfit), out_(out) {
    for (const ColumnSpec& spec : schema.columns) has_paths_ |= spec.name.find('.') != spec.name.npos;
  }

  void add(std::string_view line, int64_t number) {
    number_ = number;
    const Json json = parsed_line(line, at());
    if (!json.is_object())
      throw Error(ErrorKind::data,
                  {.where = at(), .what = "the line has no object", .got = json.type_name(), .expected = R"({"age": 41, "city": "Rome"})"});
    done_.assign(schema_.columns.size(), 0);
    add_members(json, "");
    for (size_t c = 0; c < done_.size(); ++c)
      if (!done_[c]) out_.frame.columns[c].add_missing();
    ++out_.frame.rows;
  }

 private:
  std::string at() const { return where_ + ":" + std::to_string(first_line_ + number_); }

  void add_members(const Json& object, const std::string& path) {
    for (const auto& [key, value] : object.as_object()) {
      const int64_t found = path.empty() ? schema_.find(key) : schema_.find(path + key);
      if (found >= 0) {
        add_value(value, static_cast<size_t>(found));
      } else if (value.is_object() && has_paths_ && has_path(path + key + ".")) {
        add_members(value, path + key + ".");
      } else if (path.empty() && out_.first.line < 0) {
        out_.first = {.line = number_, .column = SIZE_MAX, .text = key};
      }
    }
  }

  bool has_path(const std::string& begin) const {
    return std::any_of(schema_.columns.begin(), schema_.columns.end(),
                       [&](const ColumnSpec& spec) { return spec.name.starts_with(begin); });
  }

  void add_value(const Json& value, size_t c) {
    Column& column = out_.frame.columns[c];
    if (value.is_null() || done_[c]) return;
    if (column.type == Type::list && value.is_array()) {
      for (const Json& item : value.as_array()) column.items.push_back(item.is_number() ? item.as_number() : 0);
      column.ends.push_back(column.items.size());
      if (!column.missing.empty()) column.missing.push_back(0);
      done_[c] = 1;
    } else if (const std::string text = json_cell_text(value); add_parsed(schema_.columns[c], text, column)) {
      done_[c] = 1;
    } else {
      misfit(c, text);
    }
  }

  void misfit(size_t c, const std::string& text) {
    if (out_.first.line < 0) out_.first = {.line = number_, .column = c, .text = text.substr(0, 60)};
    const ColumnSpec& spec = schema_.columns[c];
    if (on_misfit_ == OnMisfit::stop) throw misfit_error(at(), spec, text, kWriteNull);
    if (out_.misfits.empty()) out_.misfits.assign(schema_.columns.size(), 0);
    ++out_.misfits[c];
    if (out_.misfit_cells.size() < most_misfits(on_misfit_)) out_.misfit_cells.push_back({number_, out_.frame.rows, c, text.substr(0, 60)});
  }

  const TableSchema& schema_;
  const std::string& where_;
  int64_t first_line_, number_ = 0;
  OnMisfit on_misfit_;
  CsvBlock& out_;
  bool has_paths_ = false;
  std::vector<uint8_t> done_;
};

}  // namespace

void parse_json_lines(std::string_view block, const TableSchema& schema, const std::string& where, int64_t first_line, OnMisfit on_misfit,
                      CsvBlock* out) {
  out->frame = empty_frame(schema);
  out->first = {};
  out->misfit_cells.clear();
  out->misfits.clear();
  out->lines = std::count(block.begin(), block.end(), '\n');
  JsonRows rows(schema, where, first_line, on_misfit, *out);
  for_each_line(block, [&](std::string_view line, int64_t number) { rows.add(line, number); });
}

}  // namespace perigee::tables
