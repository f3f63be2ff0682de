#include "src/data/table/columnar/text/ts_file.h"

#include <cctype>
#include <charconv>

#include "src/data/table/columnar/text/text_rows.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {
namespace {

constexpr size_t kMostDimensions = 4096;
constexpr int64_t kMostTsFileRows = 16384;  // of a chunk, unless one series has more

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!(text = without_blanks(text)).empty()) {
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    list.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return list;
}

// A step: its value, NaN and missing where it is "?"; and where it stands in time.
struct TsFileStep {
  double value = 0;
  bool missing = false;
  int64_t time = 0;
};

class TsFile : public ColumnarFile {
 public:
  explicit TsFile(const ColumnarInput& input) : name_(input.name), text_(as_text(input.content)), owner_(input.owner) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    read_head();
    schema_.columns = {{.name = "series", .type = Type::integer}, {.name = "step", .type = times_ ? Type::time : Type::integer}};
    for (size_t d = 0; d < dimensions_; ++d) schema_.columns.push_back({.name = "dim_" + std::to_string(d), .type = Type::real});
    if (!classes_.empty()) schema_.columns.push_back({.name = "label", .type = Type::category, .categories = classes_});
    if (target_) schema_.columns.push_back({.name = "target", .type = Type::real});
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return static_cast<int64_t>(chunks_.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const Chunk& part = chunks_[static_cast<size_t>(chunk)];
    Frame frame = empty_frame({});
    for (const size_t c : columns) {
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.emplace_back(schema_.columns[c].type);
    }
    LineReader lines(text_, part.text.begin, part.text.line);
    Line line;
    std::vector<std::vector<TsFileStep>> series(dimensions_);
    for (int64_t s = 0; s < part.text.rows && lines.next(line);) {
      if (is_passed(line.text)) continue;
      const std::string_view label = read_series(line, series);
      add(columns, line, part.first + s + 1, series, label, frame);
      frame.rows += static_cast<int64_t>(series[0].size());
      ++s;
    }
    return frame;
  }

 private:
  struct Chunk {
    RowsOfText text;    // series, one a line
    int64_t first = 0;  // the number of the first
  };

  static bool is_passed(std::string_view text) {
    text = without_blanks(text);
    return text.empty() || text.front() == '#' || text.front() == '%';
  }

  void read_head() {
    LineReader lines(text_);
    Line line;
    while (lines.next(line)) {
      if (is_passed(line.text)) continue;
      const std::vector<std::string_view> parts = words(line.text);
      const std::string key = lower(parts[0]);
      const std::string second = parts.size() > 1 ? lower(parts[1]) : "";
      if (key == "@data") return count(lines);
      if (!key.starts_with('@'))
        line.fail(name_, line.text.data(), "the head of a .ts file has a line that is not known", parts[0], "@data");
      if (key == "@timestamps") stamps_ = second == "true";
      if (key == "@targetlabel") target_ = second == "true";
      if (key == "@classlabel" && second == "true") {
        for (size_t i = 2; i < parts.size(); ++i) classes_.emplace_back(parts[i]);
        if (classes_.empty())
          line.fail(name_, line.text.data(), "the labels of a .ts file are not named", line.text, "@classLabel true NAME NAME ...");
      }
    }
    throw Error(ErrorKind::data, {.where = name_, .what = "the .ts file has no @data"});
  }

  // Series in chunks; the first says how many dimensions all have, and what a step's place in time is.
  void count(LineReader& lines) {
    Line line;
    std::vector<std::vector<TsFileStep>> series;
    int64_t number = 0, steps = kMostTsFileRows;
    for (size_t begin = lines.at(); lines.next(line); begin = lines.at()) {
      if (is_passed(line.text)) continue;
      if (number == 0) {
        const auto parts = static_cast<size_t>(std::count(line.text.begin(), line.text.end(), ':')) + 1;
        dimensions_ = parts - (labelled() ? 1 : 0);
        if (stamps_) look_at_stamp(line);
        if (dimensions_ == 0 || dimensions_ > kMostDimensions)
          line.fail(name_, line.text.data(), "a series has no dimension, or too many", line.text);
      }
      // A value and what separates it take two bytes.
      const auto most = static_cast<int64_t>(line.text.size() / 2 / dimensions_ + 1);
      if (steps + most > kMostTsFileRows) chunks_.push_back({{begin, line.number, 0}, number}), steps = 0;
      steps += most;
      ++chunks_.back().text.rows;
      ++number;
    }
    if (chunks_.empty())
      throw Error(ErrorKind::data, {.where = name_, .what = "the table has no rows", .expected = "at least one series after @data"});
  }

  bool labelled() const { return target_ || !classes_.empty(); }

  // In "(2001-01-01 00:00:00,3.5)" colons stand inside brackets.
  void look_at_stamp(const Line& line) {
    size_t depth = 0, parts = 1;
    for (const char c : line.text) {
      if (c == '(') ++depth;
      else if (c == ')' && depth > 0) --depth;
      else if (c == ':' && depth == 0) ++parts;
    }
    dimensions_ = parts - (labelled() ? 1 : 0);
    const size_t open = line.text.find('('), comma = line.text.find(',', open == line.text.npos ? 0 : open);
    if (open == line.text.npos || comma == line.text.npos)
      line.fail(name_, line.text.data(), "a step has no time, as @timeStamps says", line.text, "(time, value)");
    int64_t whole = 0;
    const std::string_view stamp = without_blanks(line.text.substr(open + 1, comma - open - 1));
    const auto result = std::from_chars(stamp.data(), stamp.data() + stamp.size(), whole);
    times_ = result.ptr != stamp.data() + stamp.size();
  }

  // The dimensions of a line; its label is returned.
  std::string_view read_series(const Line& line, std::vector<std::vector<TsFileStep>>& series) const {
    std::string_view rest = line.text;
    for (size_t d = 0; d < dimensions_; ++d) {
      size_t end = 0, depth = 0;
      for (; end < rest.size() && (rest[end] != ':' || depth > 0); ++end)
        depth = rest[end] == '(' ? depth + 1 : rest[end] == ')' && depth > 0 ? depth - 1 : depth;
      if (end == rest.size() && (d + 1 < dimensions_ || labelled()))
        line.fail(name_, rest.data(), "a series has not as many parts as the first", line.text,
                  std::to_string(dimensions_ + labelled()) + " parts between colons");
      read_steps(line, rest.substr(0, end), series[d]);
      if (d > 0 && series[d].size() != series[0].size())
        line.fail(name_, rest.data(), "the dimensions of a series have different lengths", std::to_string(series[d].size()),
                  std::to_string(series[0].size()));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (rest.find(':') != rest.npos || (!labelled() && !rest.empty()))
      line.fail(name_, rest.data(), "a series has more parts than the first", rest);
    return without_blanks(rest);
  }

  void read_steps(const Line& line, std::string_view text, std::vector<TsFileStep>& steps) const {
    steps.clear();
    while (!text.empty()) {
      TsFileStep step{.time = static_cast<int64_t>(steps.size())};
      std::string_view value;
      size_t end = 0;
      if (stamps_) {
        const size_t open = text.find('('), close = text.find(')', open == text.npos ? 0 : open);
        const size_t comma = close == text.npos ? text.npos : text.rfind(',', close);
        if (open == text.npos || close == text.npos || comma == text.npos || comma < open)
          line.fail(name_, text.data(), "a step is none", text, "(time, value)");
        const std::string_view stamp = without_blanks(text.substr(open + 1, comma - open - 1));
        value = without_blanks(text.substr(comma + 1, close - comma - 1));
        const auto result = std::from_chars(stamp.data(), stamp.data() + stamp.size(), step.time);
        const bool good = times_ ? parse_iso_time(stamp, step.time) : result.ec == std::errc() && result.ptr == stamp.data() + stamp.size();
        if (!good) line.fail(name_, stamp.data(), "the time of a step cannot be read", stamp);
        end = std::min(text.find(',', close), text.size());
      } else {
        end = std::min(text.find(','), text.size());
        value = without_blanks(text.substr(0, end));
      }
      step.missing = value == "?" || value == "NaN" || value == "nan";
      if (!step.missing) {
        const auto result = std::from_chars(value.data(), value.data() + value.size(), step.value);
        if (value.empty() || result.ec != std::errc() || result.ptr != value.data() + value.size())
          line.fail(name_, value.empty() ? text.data() : value.data(), "the value of a step is no number", value, "a number or ?");
      }
      steps.push_back(step);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void add(std::span<const size_t> columns, const Line& line, int64_t number, const std::vector<std::vector<TsFileStep>>& series,
           std::string_view label, Frame& frame) const {
    int64_t category = -1;
    double target = 0;
    if (!classes_.empty()) {
      category = std::find(classes_.begin(), classes_.end(), label) - classes_.begin();
      if (category == static_cast<int64_t>(classes_.size()))
        line.fail(name_, label.data(), "the label of a series is none of @classLabel", label);
    } else if (target_) {
      const auto result = std::from_chars(label.data(), label.data() + label.size(), target);
      if (label.empty() || result.ec != std::errc() || result.ptr != label.data() + label.size())
        line.fail(name_, label.data(), "the target of a series is no number", label);
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      Column& column = frame.columns[i];
      const size_t c = columns[i];
      for (size_t s = 0; s < series[0].size(); ++s) {
        if (c == 0) column.add_whole(number);
        else if (c == 1) column.add_whole(series[0][s].time);
        else if (c >= 2 + dimensions_ && target_) column.add_real(target);
        else if (c >= 2 + dimensions_) column.add_whole(category);
        else if (series[c - 2][s].missing) column.add_missing();
        else column.add_real(series[c - 2][s].value);
      }
    }
  }

  std::string name_;
  std::string_view text_;
  std::shared_ptr<const void> owner_;
  TableSchema schema_;
  std::vector<std::string> classes_;
  std::vector<Chunk> chunks_;
  size_t dimensions_ = 0;
  bool stamps_ = false, times_ = false, target_ = false;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_ts(const ColumnarInput& input) { return std::make_unique<TsFile>(input); }

}  // namespace perigee::tables
