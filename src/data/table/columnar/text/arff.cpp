#include "src/data/table/columnar/text/arff.h"

#include <cctype>
#include <map>

#include "src/data/table/columnar/text/text_rows.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {
namespace {

constexpr size_t kMostArffColumns = 65536;

bool same_word(std::string_view a, std::string_view lower) {
  return a.size() == lower.size() &&
         std::equal(a.begin(), a.end(), lower.begin(), [](char x, char y) { return std::tolower(static_cast<unsigned char>(x)) == y; });
}

bool is_comment(std::string_view text) { return text.empty() || text.front() == '%'; }

// Java's letters of a date as strftime has them.
std::string date_format(const Line& line, const std::string& name, std::string_view java) {
  static constexpr std::pair<std::string_view, const char*> kLetters[] = {
      {"yyyy", "%Y"}, {"yy", "%y"}, {"MMMM", "%B"}, {"MMM", "%b"}, {"MM", "%m"},  {"M", "%m"}, {"dd", "%d"}, {"d", "%d"}, {"HH", "%H"},
      {"H", "%H"},    {"hh", "%I"}, {"mm", "%M"},   {"ss", "%S"},  {"SSS", "%f"}, {"a", "%p"}, {"Z", "%z"},  {"X", "%z"}, {"DDD", "%j"}};
  std::string format;
  for (size_t i = 0; i < java.size();) {
    const char c = java[i];
    if (c == '\'') {  // as it is
      const size_t end = java.find('\'', i + 1);
      if (end == java.npos) line.fail(name, line.text.data(), "the format of a date has a quote that does not end", java);
      format += end == i + 1 ? "'" : std::string(java.substr(i + 1, end - i - 1));
      i = end + 1;
      continue;
    }
    size_t count = 1;
    while (i + count < java.size() && java[i + count] == c) ++count;
    const std::string_view letters = java.substr(i, count);
    const auto* found = std::find_if(std::begin(kLetters), std::end(kLetters), [&](const auto& entry) { return entry.first == letters; });
    if (found != std::end(kLetters)) format += found->second;
    else if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      line.fail(name, line.text.data(), "the format of a date has letters that are not known", letters);
    else format += c == '%' ? std::string(2 * count, '%') : std::string(letters);
    i += count;
  }
  return format;
}

// Fields of a row: separated by commas or tabs, in quotes where they have such; a backslash in quotes takes the next letter as it is.
class Fields {
 public:
  Fields(const std::string& name, const Line& line, const char* p, const char* end) : name_(name), line_(line), p_(p), end_(end) {
    blanks();
  }

  bool done() const { return p_ == end_ || *p_ == '%'; }
  const char* at() const { return p_; }
  void blanks() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\t')) ++p_;
  }
  bool take(char c) {
    blanks();
    if (p_ == end_ || *p_ != c) return false;
    ++p_;
    blanks();
    return true;
  }
  // The next one; `quoted`: "?" is a text then. Ends before what is in `stops`, or a blank where blanks separate.
  std::string_view next(std::string_view stops, bool by_blanks, bool* quoted = nullptr) {
    blanks();
    if (quoted != nullptr) *quoted = false;
    if (p_ < end_ && (*p_ == '\'' || *p_ == '"')) {
      if (quoted != nullptr) *quoted = true;
      const char quote = *p_;
      const char* begin = p_++;
      memory_.clear();
      for (; p_ < end_ && *p_ != quote; ++p_) {
        if (*p_ == '\\' && p_ + 1 < end_) {
          ++p_;
          memory_ += *p_ == 'n' ? '\n' : *p_ == 't' ? '\t' : *p_ == 'r' ? '\r' : *p_;
        } else {
          memory_ += *p_;
        }
      }
      if (p_ == end_) line_.fail(name_, begin, "a quote does not end", std::string_view(begin, static_cast<size_t>(end_ - begin)));
      ++p_;
      return memory_;
    }
    const char* begin = p_;
    while (p_ < end_ && stops.find(*p_) == stops.npos && !(by_blanks && (*p_ == ' ' || *p_ == '\t'))) ++p_;
    return without_blanks({begin, static_cast<size_t>(p_ - begin)});
  }

 private:
  const std::string& name_;
  const Line& line_;
  const char *p_, *end_;
  std::string memory_;
};

class ArffFile : public ColumnarFile {
 public:
  explicit ArffFile(const ColumnarInput& input) : name_(input.name), text_(as_text(input.content)), owner_(input.owner) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    read_head();
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return static_cast<int64_t>(chunks_.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const RowsOfText& part = chunks_[static_cast<size_t>(chunk)];
    Frame frame{.rows = part.rows};
    std::vector<int64_t> place(schema_.columns.size(), -1);
    for (const size_t c : columns) {
      place[c] = static_cast<int64_t>(frame.columns.size());
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.emplace_back(schema_.columns[c].type).reserve(part.rows);
    }
    LineReader lines(text_, part.begin, part.line);
    Line line;
    for (int64_t r = 0; r < part.rows && lines.next(line);) {
      const std::string_view row = without_blanks(line.text);
      if (is_comment(row)) continue;
      if (row.front() == '{') sparse(line, row, place, frame);
      else dense(line, row, place, frame);
      ++r;
    }
    return frame;
  }

 private:
  void read_head() {
    LineReader lines(text_);
    Line line;
    while (lines.next(line)) {
      const std::string_view row = without_blanks(line.text);
      if (is_comment(row)) continue;
      const size_t end = std::min(row.find_first_of(" \t"), row.size());
      const std::string_view key = row.substr(0, end);
      if (same_word(key, "@relation")) continue;
      if (same_word(key, "@data")) return count_rows(lines);
      if (!same_word(key, "@attribute"))
        line.fail(name_, row.data(), "the head of an ARFF file has a line that is not known", key, "@attribute or @data");
      attribute(line, row.substr(end));
    }
    throw Error(ErrorKind::data, {.where = name_, .what = "the ARFF file has no @data"});
  }

  void attribute(const Line& line, std::string_view rest) {
    Fields fields(name_, line, rest.data(), rest.data() + rest.size());
    ColumnSpec spec{.name = std::string(fields.next("{", true))};
    if (spec.name.empty() || schema_.columns.size() >= kMostArffColumns || !numbers_.emplace(spec.name, schema_.columns.size()).second)
      line.fail(name_, rest.data(), "an attribute has no name, or that of another, or there are too many", spec.name);
    std::map<std::string, int64_t, std::less<>> categories;
    if (fields.take('{')) {
      spec.type = Type::category;
      while (!fields.take('}')) {
        if (fields.done()) line.fail(name_, fields.at(), "the values of a nominal attribute do not end", line.text);
        const std::string value(fields.next(",}", false));
        if (!categories.emplace(value, static_cast<int64_t>(spec.categories.size())).second)
          line.fail(name_, fields.at(), "a nominal attribute has a value twice", value);
        spec.categories.push_back(value);
        fields.take(',');
      }
      if (spec.categories.empty()) line.fail(name_, rest.data(), "a nominal attribute has no values", spec.name);
    } else {
      const std::string_view type = fields.next("%", true);
      if (same_word(type, "numeric") || same_word(type, "real") || same_word(type, "integer")) spec.type = Type::real;
      else if (same_word(type, "string")) spec.type = Type::text;
      else if (same_word(type, "date")) {
        spec.type = Type::time;
        fields.blanks();
        if (!fields.done()) spec.format = date_format(line, name_, fields.next("%", true));
      } else {
        line.fail(name_, fields.at() - type.size(), "an attribute has a type that is not read", type,
                  "numeric, real, integer, string, date or {values}");
      }
    }
    schema_.columns.push_back(std::move(spec));
    categories_.push_back(std::move(categories));
  }

  void count_rows(LineReader& lines) {
    if (schema_.columns.empty()) throw Error(ErrorKind::data, {.where = name_, .what = "the ARFF file has no @attribute"});
    RowChunks chunks(chunk_rows(schema_.columns.size()));
    Line line;
    for (size_t begin = lines.at(); lines.next(line); begin = lines.at())
      if (!is_comment(without_blanks(line.text))) chunks.add(begin, line.number);
    chunks_ = chunks.take();
    if (chunks_.empty()) throw Error(ErrorKind::data, {.where = name_, .what = "the table has no rows", .expected = "at least one row"});
  }

  void dense(const Line& line, std::string_view row, const std::vector<int64_t>& place, Frame& frame) const {
    Fields fields(name_, line, row.data(), row.data() + row.size());
    const bool by_blanks = row.find(',') == row.npos;
    for (size_t c = 0; c < place.size(); ++c) {
      if (c > 0 && !by_blanks && !fields.take(','))
        line.fail(name_, fields.at(), "the row has not a value for each attribute", row, std::to_string(place.size()));
      fields.blanks();
      if (fields.done()) line.fail(name_, fields.at(), "the row has not a value for each attribute", row, std::to_string(place.size()));
      const char* begin = fields.at();
      bool quoted = false;
      const std::string_view value = fields.next(",%", by_blanks, &quoted);
      if (place[c] >= 0) add(line, begin, c, value, quoted, frame.columns[static_cast<size_t>(place[c])]);
    }
    fields.blanks();
    if (!fields.done())
      line.fail(name_, fields.at(), "the row has more values than attributes (weights of rows are not read)",
                std::string_view(fields.at(), 1));
  }

  // {1 X, 3 Y}: what is left out is 0, or the first value of a nominal attribute.
  void sparse(const Line& line, std::string_view row, const std::vector<int64_t>& place, Frame& frame) const {
    Fields fields(name_, line, row.data() + 1, row.data() + row.size());
    size_t next = 0;
    const auto fill = [&](size_t until) {
      for (; next < until; ++next) {
        if (place[next] < 0) continue;
        Column& column = frame.columns[static_cast<size_t>(place[next])];
        if (column.type == Type::real) column.add_real(0);
        else if (column.type == Type::text) column.add_text("");
        else column.add_whole(0);
      }
    };
    while (!fields.take('}')) {
      const char* begin = fields.at();
      if (fields.done()) line.fail(name_, begin, "a sparse row does not end", row, "}");
      const std::string_view digits = fields.next(",}", true);
      double index = -1;
      Column parsed(Type::integer);
      if (add_parsed({.type = Type::integer}, digits, parsed)) index = static_cast<double>(parsed.whole[0]);
      if (index < static_cast<double>(next) || index >= static_cast<double>(place.size()))
        line.fail(name_, begin, "a sparse row has a number of no attribute, or one that does not ascend", digits,
                  "0 to " + std::to_string(place.size() - 1));
      fill(static_cast<size_t>(index));
      begin = fields.at();
      bool quoted = false;
      const std::string_view value = fields.next(",}", false, &quoted);
      if (place[next] >= 0) add(line, begin, next, value, quoted, frame.columns[static_cast<size_t>(place[next])]);
      ++next;
      fields.take(',');
    }
    if (!fields.done())
      line.fail(name_, fields.at(), "something follows a sparse row (weights of rows are not read)", std::string_view(fields.at(), 1));
    fill(place.size());
  }

  void add(const Line& line, const char* begin, size_t number, std::string_view value, bool quoted, Column& column) const {
    if (value == "?" && !quoted) return column.add_missing();
    const ColumnSpec& spec = schema_.columns[number];
    if (spec.type == Type::category) {
      const auto found = categories_[number].find(value);
      if (found == categories_[number].end()) line.fail(name_, begin, "'" + spec.name.substr(0, 60) + "' has not this value", value);
      column.add_whole(found->second);
    } else if (!add_parsed(spec, value, column)) {
      line.fail(name_, begin, "the value does not fit the attribute '" + spec.name.substr(0, 60) + "'", value,
                std::string("a value of type ") + type_text(spec.type));
    }
  }

  std::string name_;
  std::string_view text_;
  std::shared_ptr<const void> owner_;
  TableSchema schema_;
  std::map<std::string, size_t> numbers_;
  std::vector<std::map<std::string, int64_t, std::less<>>> categories_;  // of each column: their numbers
  std::vector<RowsOfText> chunks_;
};

}  // namespace

bool begins_as_arff(std::string_view head) {
  LineReader lines(head);
  for (Line line; lines.next(line);) {
    const std::string_view text = without_blanks(line.text);
    if (!is_comment(text)) return same_word(text.substr(0, 9), "@relation");
  }
  return false;
}

std::unique_ptr<ColumnarFile> open_arff(const ColumnarInput& input) { return std::make_unique<ArffFile>(input); }

}  // namespace perigee::tables
