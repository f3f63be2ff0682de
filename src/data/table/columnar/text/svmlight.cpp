#include "src/data/table/columnar/text/svmlight.h"

#include <charconv>
#include <cmath>

#include "src/data/table/columnar/text/text_rows.h"

namespace perigee::tables {
namespace {

constexpr int64_t kMostFeatures = 65536;

bool svmlight_is_blank(char c) { return c == ' ' || c == '\t'; }

// The next word between blanks; false at the end of the line or before a comment.
bool next_word(const char*& p, const char* end, std::string_view& word) {
  while (p < end && svmlight_is_blank(*p)) ++p;
  if (p == end || *p == '#') return false;
  const char* begin = p;
  while (p < end && !svmlight_is_blank(*p)) ++p;
  word = {begin, static_cast<size_t>(p - begin)};
  return true;
}

class SvmLightFile : public ColumnarFile {
 public:
  explicit SvmLightFile(const ColumnarInput& input) : name_(input.name), text_(as_text(input.content)), owner_(input.owner) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    scan();
    for (int64_t i = 0; i < features_; ++i) schema_.columns.push_back({.name = "f" + std::to_string(first_ + i), .type = Type::real});
    if (qid_) schema_.columns.push_back({.name = "qid", .type = Type::integer});
    schema_.columns.push_back({.name = "label", .type = whole_ ? Type::integer : Type::real});
    count_rows();
  }

  const TableSchema& schema() const override { return schema_; }
  int64_t chunks() const override { return static_cast<int64_t>(chunks_.size()); }

  // Any feature is there: what no row names is 0 in all of them. Such columns have numbers beyond those of the schema.
  int64_t find(std::string_view name) const override {
    if (name == "label") return static_cast<int64_t>(schema_.columns.size()) - 1;
    if (name == "qid") return qid_ ? features_ : -1;
    int64_t number = 0;
    if (!name.starts_with('f')) return -1;
    const auto result = std::from_chars(name.data() + 1, name.data() + name.size(), number);
    if (result.ec != std::errc() || result.ptr != name.data() + name.size() || number < 0 || number >= kMostFeatures) return -1;
    const int64_t at = number - first_;
    return at >= 0 && at < features_ ? at : static_cast<int64_t>(schema_.columns.size());
  }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const RowsOfText& part = chunks_[static_cast<size_t>(chunk)];
    const size_t label = schema_.columns.size() - 1;
    const auto rows = static_cast<size_t>(part.rows);
    Frame frame{.rows = part.rows};
    std::vector<double*> place(schema_.columns.size(), nullptr);  // of each feature's column
    Column *labels = nullptr, *queries = nullptr;
    frame.columns.reserve(columns.size());
    for (const size_t c : columns) {
      frame.schema.columns.push_back(c > label ? ColumnSpec{.name = "f", .type = Type::real} : schema_.columns[c]);
      Column& column = frame.columns.emplace_back(frame.schema.columns.back().type);
      if (c == label) labels = &column;
      else if (c < label && static_cast<int64_t>(c) >= features_) queries = &column;
      else column.real.assign(rows, 0.0);
      if (static_cast<int64_t>(c) < features_) place[c] = column.real.data();
    }
    LineReader lines(text_, part.begin, part.line);
    Line line;
    for (size_t r = 0; r < rows && lines.next(line);) {
      const char *p = line.text.data(), *end = p + line.text.size();
      std::string_view word;
      if (!next_word(p, end, word)) continue;
      if (labels != nullptr && whole_) labels->add_whole(static_cast<int64_t>(number(line, word)));
      else if (labels != nullptr) labels->add_real(number(line, word));
      int64_t query = 0;
      pairs(line, p, end, &query, [&](int64_t index, double value) {
        if (double* column = place[static_cast<size_t>(index - first_)]; column != nullptr) column[r] = value;
      });
      if (queries != nullptr) queries->add_whole(query);
      ++r;
    }
    return frame;
  }

 private:
  double number(const Line& line, std::string_view word) const {
    double value = 0;
    const std::string_view digits = word.starts_with('+') ? word.substr(1) : word;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size() || digits.empty())
      line.fail(name_, word.data(), "a row of an SVMLight file has no number here", word,
                word.find(',') != word.npos ? "one label for each row" : "a number such as 1 or 0.5");
    return value;
  }

  // "index:value" for the rest of a line, ascending.
  template <class Use>
  void pairs(const Line& line, const char* p, const char* end, int64_t* query, Use use) const {
    std::string_view word;
    int64_t last = -1;
    bool first = true;
    while (next_word(p, end, word)) {
      const size_t colon = word.find(':');
      if (colon == word.npos) line.fail(name_, word.data(), "a row of an SVMLight file has a value without a number", word, "index:value");
      const std::string_view key = word.substr(0, colon), value = word.substr(colon + 1);
      int64_t index = 0;
      const bool is_query = first && key == "qid";
      const std::string_view digits = is_query ? value : key;
      const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), index);
      first = false;
      if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size() || (!is_query && index < 0))
        line.fail(name_, digits.data(), "a row of an SVMLight file has a value whose number cannot be read", word, "index:value");
      if (is_query) {
        if (query != nullptr) *query = index;
        continue;
      }
      if (index >= kMostFeatures)
        line.fail(name_, digits.data(), "a row of an SVMLight file has a value with too high a number", word,
                  "less than " + std::to_string(kMostFeatures) + ": tables have a column for each");
      if (index <= last) line.fail(name_, digits.data(), "the values of a row of an SVMLight file do not ascend", word);
      last = index;
      use(index, number(line, value));
    }
  }

  void scan() {
    LineReader lines(text_);
    Line line;
    int64_t most = -1;
    bool zero = false;
    while (lines.next(line)) {
      const char *p = line.text.data(), *end = p + line.text.size();
      std::string_view word;
      if (!next_word(p, end, word)) continue;
      const double label = number(line, word);
      whole_ = whole_ && label == std::floor(label) && std::abs(label) < 1e15;
      int64_t query = INT64_MIN;
      pairs(line, p, end, &query, [&](int64_t index, double) {
        most = std::max(most, index);
        zero = zero || index == 0;
      });
      qid_ = qid_ || query != INT64_MIN;
    }
    first_ = zero ? 0 : 1;
    features_ = most < 0 ? 0 : most - first_ + 1;
  }

  void count_rows() {
    RowChunks chunks(chunk_rows(schema_.columns.size()));
    LineReader lines(text_);
    Line line;
    for (size_t begin = 0; lines.next(line); begin = lines.at()) {
      const char* p = line.text.data();
      std::string_view word;
      if (next_word(p, p + line.text.size(), word)) chunks.add(begin, line.number);
    }
    chunks_ = chunks.take();
    if (chunks_.empty()) throw Error(ErrorKind::data, {.where = name_, .what = "the table has no rows", .expected = "at least one row"});
  }

  std::string name_;
  std::string_view text_;
  std::shared_ptr<const void> owner_;
  TableSchema schema_;
  std::vector<RowsOfText> chunks_;
  int64_t first_ = 1, features_ = 0;
  bool qid_ = false, whole_ = true;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_svmlight(const ColumnarInput& input) { return std::make_unique<SvmLightFile>(input); }

}  // namespace perigee::tables
