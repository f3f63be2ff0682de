#include "src/data/table/reading/documents.h"

#include <algorithm>
#include <vector>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/data/table/reading/xml_rows.h"
#include "src/io/yaml.h"

namespace perigee::tables {
namespace {

bool document_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view from_first_letter(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty() && document_blank(text.front())) text.remove_prefix(1);
  return text;
}

constexpr size_t kLongestPath = 4096;

// Adds the members of an object, and those of objects in it by their paths, which may take `room` more bytes.
void add_members(const Json& object, const std::string& path, const std::string& where, size_t& room, Json::Object& out) {
  for (const auto& [key, value] : object.as_object()) {
    const std::string name = path.empty() ? key : path + "." + key;
    if (name.size() > std::min(kLongestPath, room))
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "the paths of the keys are far longer than names of columns",
                                    .got = std::to_string(name.size()) + " letters",
                                    .expected = "at most " + std::to_string(kLongestPath) + ", and few of such a length"});
    room -= name.size();
    if (value.is_object()) add_members(value, name, where, room, out);
    else out.emplace_back(name, value);
  }
}

const Json& part_of_json(const Json& root, const std::string& part, const std::string& where) {
  const Json* now = &root;
  for (size_t at = 0; at < part.size();) {
    const size_t end = std::min(part.find('.', at), part.size());
    const Json* next = now->find(std::string_view(part).substr(at, end - at));
    if (next == nullptr)
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "the document has no such part",
                                    .got = "#" + part.substr(0, 60),
                                    .expected = "keys with points between them: FILE#data.rows"});
    now = next;
    at = end + 1;
  }
  return *now;
}

void add_rows_of(const Json& root, const std::string& part, const std::string& where, size_t& room, std::string& out) {
  const Json& rows = part_of_json(root, part, where);
  const auto add = [&](const Json& row, size_t number) {
    if (!row.is_object())
      throw Error(ErrorKind::data, {.where = where + ": row " + std::to_string(number + 1),
                                    .what = "the row is no object",
                                    .got = row.type_name(),
                                    .expected = R"([{"age": 41}, ...], or FILE#KEY for what has such a list)"});
    Json::Object flat;
    add_members(row, "", where + ": row " + std::to_string(number + 1), room, flat);
    out += Json(std::move(flat)).dump();
    out += '\n';
  };
  if (!rows.is_array()) return add(rows, 0);
  for (size_t r = 0; r < rows.as_array().size(); ++r) add(rows.as_array()[r], r);
}

template <class F>
Json parsed_document(F parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
}

bool yaml_has_values(std::string_view text) {  // not only blanks, comments and directives
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != line.npos && line[first] != '#' && line[0] != '%') return true;
    at = end + 1;
  }
  return false;
}

// Documents of a stream of YAML begin with lines of ---; each is a row, or has rows.
void add_yaml(std::string_view text, const std::string& part, const std::string& where, size_t most_values, size_t& room,
              std::string& out) {
  size_t begin = 0, number = 0;
  const auto add = [&](std::string_view document) {
    if (!yaml_has_values(document)) return;
    const std::string its = where + (++number > 1 ? ": document " + std::to_string(number) : "");
    add_rows_of(parsed_document([&] { return parse_yaml(document, its, most_values); }), part, its, room, out);
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with("---") && (line.size() == 3 || document_blank(line[3]))) {
      add(text.substr(begin, at - begin));
      begin = at + 3;
    }
    at = end + 1;
  }
  add(text.substr(begin));
}

}  // namespace

DocumentKind kind_of_document(std::string_view head, std::string_view name) {
  for (const std::string_view end : {".gz", ".xz", ".zst"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return DocumentKind::yaml;
  const std::string_view text = from_first_letter(head);
  if (text.starts_with("<?xml") || (text.starts_with('<') && name.ends_with(".xml"))) return DocumentKind::xml;
  // A list of objects, or an object of several lines: JSON Lines has all of one on its line.
  if (text.starts_with('[')) {
    const std::string_view inside = from_first_letter(text.substr(1));
    return inside.starts_with('{') || (inside.starts_with(']') && name.ends_with(".json")) ? DocumentKind::json : DocumentKind::none;
  }
  if (!text.starts_with('{')) return DocumentKind::none;
  const size_t next = text.find_first_not_of(" \t\r", 1);
  return next != text.npos && text[next] == '\n' ? DocumentKind::json : DocumentKind::none;
}

std::string lines_of_document(DocumentKind kind, std::string_view text, const std::string& part, const std::string& where,
                              size_t most_values) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string out;
  size_t room = (size_t{16} << 20) + 8 * text.size();
  if (kind == DocumentKind::xml) return csv_of_xml(text, part, where);
  if (kind == DocumentKind::yaml) add_yaml(text, part, where, most_values, room, out);
  else add_rows_of(parsed_document([&] { return Json::parse(text, where, most_values); }), part, where, room, out);
  if (out.empty()) throw Error(ErrorKind::data, {.where = where, .what = "the document has no rows", .expected = "at least one"});
  return out;
}

std::string encoding_of_xml(std::string_view head) {
  head = from_first_letter(head);
  if (!head.starts_with("<?xml")) return "";
  head = head.substr(0, head.find("?>"));
  const size_t key = head.find("encoding");
  const size_t open = key == head.npos ? key : head.find_first_of("\"'", key);
  const size_t close = open == head.npos ? open : head.find(head[open], open + 1);
  if (close == head.npos) return "";
  std::string name(head.substr(open + 1, close - open - 1));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return name == "utf-8" || name == "us-ascii" || name == "utf8" ? "" : name;
}

}  // namespace perigee::tables
