#include "src/io/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kMaxCells = size_t{1} << 31;
constexpr size_t kMaxColumns = 1 << 20;

size_t count_in_line(std::string_view text, char c) {
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  return static_cast<size_t>(std::count(line.begin(), line.end(), c));
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& where, char delimiter) : text_(text), where_(where), delimiter_(delimiter) {}

  CsvTable run(bool with_header) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    // Unescaped text is shorter than its source: this never reallocates under the views into it. (A short string would lie in the
    // table itself and move with it.)
    if (text_.find("\"\"") != text_.npos) table_.unescaped.reserve(std::max<size_t>(text_.size(), 256));
    std::vector<std::string_view> row;
    while (at_ < text_.size()) {
      row.clear();
      const int64_t line = line_;
      read_row(row);
      if (row.size() == 1 && row[0].empty() && !quoted_row_) continue;
      if (table_.columns == 0) table_.columns = static_cast<int64_t>(row.size());
      if (static_cast<int64_t>(row.size()) != table_.columns)
        fail(line, "the row has another number of fields than the first", std::to_string(row.size()), std::to_string(table_.columns),
             delimiter_hint(text_, delimiter_));
      if (with_header && table_.header.empty()) {
        for (const auto& name : row) table_.header.emplace_back(name);
        continue;
      }
      if (table_.cells.size() + row.size() > kMaxCells) fail(line, "the table has too many cells");
      table_.cells.insert(table_.cells.end(), row.begin(), row.end());
      table_.lines.push_back(line);
      ++table_.rows;
    }
    return std::move(table_);
  }

 private:
  [[noreturn]] void fail(int64_t line, std::string what, std::string got = "", std::string expected = "", std::string hint = "") const {
    throw Error(ErrorKind::data,
                {where_ + ":" + std::to_string(line), std::move(what), std::move(got), std::move(expected), std::move(hint)});
  }

  bool blank(char c) const { return (c == ' ' || c == '\t') && c != delimiter_; }

  // Takes the end of the line, if there is one.
  bool end_of_line() {
    if (at_ == text_.size()) return true;
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    if (text_[at_] != '\n' && text_[at_] != '\r') return false;
    ++at_;
    ++line_;
    return true;
  }

  void read_row(std::vector<std::string_view>& row) {
    quoted_row_ = false;
    for (;;) {
      while (at_ < text_.size() && blank(text_[at_])) ++at_;
      const bool quoted = at_ < text_.size() && text_[at_] == '"';
      row.push_back(quoted ? quoted_field() : plain_field());
      if (row.size() > kMaxColumns) fail(line_, "the row has too many fields");
      if (end_of_line()) return;
      ++at_;  // the delimiter: both kinds of field stop at nothing else
    }
  }

  std::string_view plain_field() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' && text_[at_] != '\r') {
      if (text_[at_] == '"') fail(line_, "a quote inside an unquoted field");
      ++at_;
    }
    size_t end = at_;
    while (end > begin && blank(text_[end - 1])) --end;
    return text_.substr(begin, end - begin);
  }

  std::string_view quoted_field() {
    quoted_row_ = true;
    const int64_t line = line_;
    const size_t begin = ++at_;
    bool doubled = false;
    for (;; ++at_) {
      if (at_ >= text_.size()) fail(line, "a quoted field does not end");
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') continue;
      if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
      doubled = true;
      ++at_;
    }
    std::string_view content = text_.substr(begin, at_ - begin);
    ++at_;
    while (at_ < text_.size() && blank(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' && text_[at_] != '\r')
      fail(line_, "something follows a closing quote");
    return doubled ? unescape(content) : content;
  }

  std::string_view unescape(std::string_view content) {
    const size_t begin = table_.unescaped.size();
    for (size_t i = 0; i < content.size(); ++i) {
      table_.unescaped += content[i];
      if (content[i] == '"') ++i;
    }
    return std::string_view(table_.unescaped).substr(begin);
  }

  std::string_view text_;
  const std::string& where_;
  char delimiter_;
  size_t at_ = 0;
  int64_t line_ = 1;
  bool quoted_row_ = false;
  CsvTable table_;
};

}  // namespace

std::string tell_apart(std::vector<std::string>& names) {
  std::string first;
  std::set<std::string> taken;
  for (size_t c = 0; c < names.size(); ++c) {
    if (names[c].empty() || taken.insert(names[c]).second) continue;
    if (first.empty()) first = names[c];
    while (!taken.insert(names[c]).second) names[c] += "_" + std::to_string(c);
  }
  return first;
}

std::string line_of_equal_names(const std::string& where, const std::string& name) {
  return where + ": several columns are called '" + name.substr(0, 60) +
         "'; those after the first get their number, from 0, behind it, as in '" + name.substr(0, 60) +
         "_1'; give each a name of its own in the first line";
}

std::string without_decimal_comma(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == text.npos || comma == 0 || text.size() > 64 || text.find('.') != text.npos) return "";
  std::string number(text);
  number[comma] = '.';
  double value = 0;
  return csv_number(number, value) ? number : "";
}

CsvTable parse_csv(std::string_view text, const std::string& where, char delimiter, bool header) {
  return Parser(text, where, delimiter).run(header);
}

std::string delimiter_hint(std::string_view text, char delimiter) {
  for (const char other : {';', '\t', '|', ','})
    if (other != delimiter && count_in_line(text, other) > count_in_line(text, delimiter))
      return std::string("the first line has more of another character: delimiter = \"") + (other == '\t' ? "\\t" : std::string(1, other)) +
             "\"";
  return "";
}

bool csv_number(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size() && std::isfinite(value);
}

}  // namespace perigee
