#include "src/data/table/reading/guess.h"

#include <algorithm>
#include <set>

#include "src/data/table/reading/csv_rows.h"

namespace perigee::tables {
namespace {

bool is_missing_text(std::string_view text, const Dialect& dialect) {
  return std::find(dialect.missing.begin(), dialect.missing.end(), without_blanks(text)) != dialect.missing.end();
}

}  // namespace

bool reads_as(Type type, std::string_view text) {
  Column column(type);
  text = without_blanks(text);
  // 0 and 1 are numbers; zeros in front make a number of a house, a telephone or an article.
  if (type == Type::boolean) return text.size() > 1 && add_parsed({.type = type}, text, column);
  if ((type == Type::integer || type == Type::real) && text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9') return false;
  return add_parsed({.type = type}, text, column);
}

Type wider(Type type, std::string_view text) {
  if (type == Type::integer && reads_as(Type::real, text)) return Type::real;
  return Type::text;
}

Type narrowest(const std::vector<std::string_view>& values, const Dialect& dialect) {
  const auto fits = [&](Type type) {
    return std::all_of(values.begin(), values.end(), [&](auto v) { return is_missing_text(v, dialect) || reads_as(type, v); });
  };
  if (std::all_of(values.begin(), values.end(), [&](auto v) { return is_missing_text(v, dialect); })) return Type::text;
  for (const Type type : {Type::boolean, Type::integer, Type::real, Type::time})
    if (fits(type)) return type;
  return Type::text;
}

char found_delimiter(std::string_view text, const Dialect& dialect, const std::string& path) {
  char best = dialect.delimiter;
  size_t most = 0;
  for (const char candidate : {',', ';', '\t', '|'}) {
    Dialect other = dialect;
    other.delimiter = candidate;
    std::vector<std::string> fields;
    size_t at = 0, first = 0, rows = 0;
    while (rows < 20 && at < text.size() && next_row(text, other, &at, &fields)) {
      if (fields.size() == 1 && fields[0].empty()) continue;
      if (first == 0) first = fields.size();
      if (fields.size() != first && at < text.size()) break;
      ++rows;
    }
    if (first > 1 && rows * first > most && (rows >= 20 || at >= text.size())) most = rows * first, best = candidate;
  }
  if (most == 0 && path.ends_with(".tsv")) return '\t';
  return best;
}

bool blanks_follow(std::string_view text, char delimiter) {
  size_t seen = 0;
  for (size_t at = text.find(delimiter); at != text.npos && at + 1 < text.size() && seen < 1000; at = text.find(delimiter, at + 1), ++seen)
    if (text[at + 1] != ' ') return false;
  return seen > 0;
}

std::vector<std::string> column_names(const std::vector<std::string>& first, bool header) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (size_t c = 0; c < first.size(); ++c) {
    std::string name = header && !first[c].empty() ? first[c] : "c" + std::to_string(c);
    while (!taken.insert(name).second) name += "_" + std::to_string(c);
    names.push_back(std::move(name));
  }
  return names;
}

size_t line_end(std::string_view text, size_t at) {
  const size_t end = text.find('\n', at);
  return end == text.npos ? text.size() : end + 1;
}

}  // namespace perigee::tables
