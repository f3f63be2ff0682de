#include "src/data/table/reading/csv_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>

#include "src/core/error.h"
#include "src/data/table/reading/category_table.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/data/table/reading/decimal.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {
namespace {

constexpr uint64_t all(char c) { return 0x0101010101010101 * static_cast<unsigned char>(c); }

// The high bit of each byte of `word` that is equal to `c`'s; bytes above the first may be wrong.
uint64_t equal(uint64_t word, uint64_t cs) {
  const uint64_t x = word ^ cs;
  return (x - 0x0101010101010101) & ~x & 0x8080808080808080;
}

class BlockParser {
 public:
  BlockParser(std::string_view block, const CsvPlan& plan, const std::string& where, int64_t first_line, OnMisfit on_misfit, CsvBlock* out)
      : begin_(block.data()),
        end_(block.data() + block.size()),
        plan_(plan),
        dialect_(*plan.dialect),
        where_(where),
        first_line_(first_line),
        on_misfit_(on_misfit),
        out_(*out) {
    delimiter_ = dialect_.delimiter;
    quote_ = dialect_.quote;
    delimiters_ = all(delimiter_);
    quotes_ = quote_ != 0 ? all(quote_) : delimiters_;
    trims_ = dialect_.trim.value_or(false) && !is_blank(delimiter_);
  }

  void run() {
    prepare();
    const char* p = begin_;
    while (p < end_) {
      if (*p == '\n' || *p == '\r') {  // an empty line
        p += p + 1 < end_ && *p == '\r' && p[1] == '\n' ? 2 : 1;
        ++line_;
        continue;
      }
      if (dialect_.comment != 0 && *p == dialect_.comment) {
        p = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end_ - p)));
        if (p == nullptr) break;
        continue;
      }
      p = row(p);
    }
    out_.lines = line_;
    out_.frame.rows = rows_;
    std::vector<bool> planned(out_.frame.columns.size());
    for (const int64_t c : plan_.column_of)
      if (c >= 0) planned[static_cast<size_t>(c)] = true;
    for (size_t c = 0; c < out_.frame.columns.size(); ++c) {
      Column& column = out_.frame.columns[c];
      column.whole.resize(std::min(column.whole.size(), static_cast<size_t>(rows_)));
      column.real.resize(std::min(column.real.size(), static_cast<size_t>(rows_)));
      if (!column.missing.empty()) column.missing.resize(static_cast<size_t>(rows_));
      // A column of the schema that the text has not.
      if (planned[c]) continue;
      column.missing.assign(static_cast<size_t>(rows_), 1);
      if (column.type == Type::text) column.ends.assign(static_cast<size_t>(rows_), 0);
    }
  }

 private:
  void prepare() {
    // As many rows as the first line says, or what the last block needed.
    const void* const line_end = std::memchr(begin_, '\n', static_cast<size_t>(end_ - begin_));
    const size_t line = line_end == nullptr ? size_t{16} : static_cast<size_t>(static_cast<const char*>(line_end) - begin_) + 1;
    const size_t most = std::max<size_t>(static_cast<size_t>(end_ - begin_) / line, static_cast<size_t>(out_.frame.rows)) + 16;
    out_.frame.numbers.clear();
    out_.frame.schema = *plan_.schema;
    out_.frame.columns.resize(plan_.schema->columns.size());
    out_.frame.sequences.clear();
    out_.misfits.clear();
    out_.first = {};
    out_.misfit_cells.clear();
    for (size_t c = 0; c < out_.frame.columns.size(); ++c) {
      Column& column = out_.frame.columns[c];
      column.type = plan_.schema->columns[c].type;
      column.missing.clear();
      column.ends.clear();
      if (column.type == Type::text) column.ends.reserve(most);
      column.bytes.clear();
      column.items.clear();
      column.real.resize(column.type == Type::real ? most : 0);
      column.whole.resize(column.type == Type::real || column.type == Type::text ? 0 : most);
      tables_.push_back(column.type == Type::category ? std::make_unique<CategoryTable>(plan_.schema->columns[c].categories) : nullptr);
    }
    most_ = most;
    for (const std::string& marker : dialect_.missing)
      starts_missing_[marker.empty() ? 0 : static_cast<unsigned char>(marker[0])] = true, empty_is_missing_ |= marker.empty();
  }

  void grow() {
    most_ += most_ / 2;
    for (Column& column : out_.frame.columns) {
      if (column.type == Type::real) column.real.resize(most_);
      else if (column.type != Type::text) column.whole.resize(most_);
      if (!column.missing.empty()) column.missing.resize(most_);
    }
  }

  [[noreturn]] void fail(std::string what, std::string got = "", std::string expected = "", std::string hint = "") const {
    throw Error(ErrorKind::data, {where_ + ":" + std::to_string(first_line_ + line_), std::move(what), std::move(got), std::move(expected),
                                  std::move(hint)});
  }

  bool ends(char c) const { return c == delimiter_ || c == '\n' || c == '\r'; }

  const char* row(const char* p) {
    if (static_cast<size_t>(rows_) == most_) grow();
    const int64_t line = line_;
    const size_t count = plan_.column_of.size();
    for (size_t f = 0; f < count; ++f) {
      const int64_t c = plan_.column_of[f];
      p = c < 0 ? skipped(p) : cell(p, static_cast<size_t>(c));
      if (p < end_ && *p == delimiter_) {
        ++p;
        if (f + 1 < count) continue;
        line_ = line;
        fail("the row has more fields than the table has columns", "", std::to_string(count),
             "fields that have the delimiter in them stand in quotes");
      }
      if (f + 1 < count) {
        line_ = line;
        fail("the row has fewer fields than the table has columns", std::to_string(f + 1), std::to_string(count));
      }
    }
    if (p < end_ && *p == '\r') p += p + 1 < end_ && p[1] == '\n' ? 2 : 1;
    else if (p < end_) ++p;
    ++line_;
    ++rows_;
    return p;
  }

  // The end of an unquoted field, or a quote in it.
  const char* field_end(const char* p) const {
    for (;; p += 8) {
      const uint64_t word = load_eight(p);
      const uint64_t hit = equal(word, delimiters_) | equal(word, all('\n')) | equal(word, all('\r')) | equal(word, quotes_);
      if (hit != 0) {
        p += std::countr_zero(hit) / 8;
        return p < end_ ? p : end_;
      }
      if (p + 8 >= end_) return end_;
    }
  }

  const char* skipped(const char* p) {
    std::string_view text;
    return field(p, text);
  }

  // Any field: its text without blanks and quotes around it.
  const char* field(const char* p, std::string_view& text) {
    quoted_ = false;
    const char* first = p;
    if (trims_)
      while (first < end_ && is_blank(*first)) ++first;
    if (quote_ != 0 && first < end_ && *first == quote_) return quoted_field(first + 1, text);
    const char* const stop = field_end(first);
    if (stop < end_ && !ends(*stop))
      fail("a quote inside an unquoted field", "", "", "double it and put quotes around the field, or say quote = \"\"");
    const char* last = stop;
    if (trims_)
      while (last > first && is_blank(last[-1])) --last;
    text = {first, static_cast<size_t>(last - first)};
    return stop;
  }

  const char* quoted_field(const char* p, std::string_view& text) {
    const int64_t line = line_;
    const char* const first = p;
    quoted_ = true;
    bool doubled = false;
    for (;;) {
      const char* const hit = p < end_ ? static_cast<const char*>(std::memchr(p, quote_, static_cast<size_t>(end_ - p))) : nullptr;
      if (hit == nullptr) {
        line_ = line;
        fail("a quoted field does not end");
      }
      p = hit + 1;
      if (p >= end_ || *p != quote_) break;
      doubled = true;
      ++p;
    }
    text = {first, static_cast<size_t>(p - 1 - first)};
    line_ += std::count(text.begin(), text.end(), '\n');
    if (doubled) {
      unescaped_.clear();
      for (size_t i = 0; i < text.size(); ++i) {
        unescaped_ += text[i];
        if (text[i] == quote_) ++i;
      }
      text = unescaped_;
    }
    while (p < end_ && is_blank(*p) && trims_) ++p;
    if (p < end_ && !ends(*p)) fail("something follows a closing quote");
    return p;
  }

  void set_missing(Column& column) {
    if (column.missing.empty()) column.missing.assign(most_, 0);
    column.missing[static_cast<size_t>(rows_)] = 1;
    const auto r = static_cast<size_t>(rows_);
    if (column.type == Type::real) column.real[r] = std::numeric_limits<double>::quiet_NaN();
    else if (column.type == Type::text) column.ends.push_back(column.bytes.size());
    else column.whole[r] = 0;
  }

  bool is_missing(std::string_view text) const {
    if (text.empty()) return empty_is_missing_;
    if (!starts_missing_[static_cast<unsigned char>(text[0])]) return false;
    for (const std::string& marker : dialect_.missing)
      if (text == marker) return true;
    return false;
  }

  // The end of a plain value, which is then in its column; null: it is anything else.
  const char* plain_cell(const char* p, size_t c) {
    Column& column = out_.frame.columns[c];
    const auto r = static_cast<size_t>(rows_);
    switch (column.type) {
      case Type::real: {
        double value;
        const char* const stop = parse_decimal(p, value);
        if (stop == nullptr || stop > end_ || (stop < end_ && !ends(*stop))) break;
        column.real[r] = value;
        return stop;
      }
      case Type::integer: {
        const bool minus = *p == '-';
        const char* q = p + minus;
        uint64_t number = 0;
        int digits = 0;
        q = take_digits(q, number, digits);
        if (digits == 0 || digits > 18 || q > end_ || (q < end_ && !ends(*q))) break;
        column.whole[r] = minus ? -static_cast<int64_t>(number) : static_cast<int64_t>(number);
        return q;
      }
      case Type::time: {
        if (!plan_.schema->columns[c].format.empty()) break;
        int64_t ms;
        const char* const stop = iso_time(p, ms);
        if (stop == nullptr || stop > end_ || (stop < end_ && !ends(*stop))) break;
        column.whole[r] = ms;
        return stop;
      }
      case Type::boolean: {
        const uint64_t word = load_eight(p);
        const bool yes = (word & 0xFFFFFFFF) == 0x65757274, no = (word & 0xFFFFFFFFFF) == 0x65736C6166;  // "true", "false"
        const char* const stop = p + (yes ? 4 : 5);
        if ((!yes && !no) || stop > end_ || (stop < end_ && !ends(*stop))) break;
        column.whole[r] = yes;
        return stop;
      }
      case Type::category: {
        if (*p == quote_ || is_blank(*p)) break;
        const char* const stop = field_end(p);
        const int64_t number = tables_[c]->find({p, static_cast<size_t>(stop - p)});
        if (number < 0) break;
        column.whole[r] = number;
        return stop;
      }
      default: break;
    }
    return nullptr;
  }

  const char* cell(const char* p, size_t c) {
    if (const char* const stop = plain_cell(p, c)) return stop;
    Column& column = out_.frame.columns[c];
    std::string_view text;
    p = field(p, text);
    if (column.type != Type::text) {
      while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
      while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    }
    // An empty text in quotes is a text.
    if (!(quoted_ && column.type == Type::text) && is_missing(text)) {
      set_missing(column);
      return p;
    }
    add(column, c, text);
    return p;
  }

  void add(Column& column, size_t c, std::string_view text) {
    if (column.type == Type::text) {
      column.bytes.append(text);
      column.ends.push_back(column.bytes.size());
      return;
    }
    const ColumnSpec& spec = plan_.schema->columns[c];
    Column one(column.type);
    if (add_parsed(spec, text, one)) {
      if (column.type == Type::real) column.real[static_cast<size_t>(rows_)] = one.real[0];
      else column.whole[static_cast<size_t>(rows_)] = one.whole[0];
      return;
    }
    if (out_.first.line < 0) out_.first = {.line = line_, .row = rows_, .column = c, .text = std::string(text.substr(0, 60))};
    if (out_.misfits.empty()) out_.misfits.assign(out_.frame.columns.size(), 0);
    ++out_.misfits[c];
    if (out_.misfit_cells.size() < most_misfits(on_misfit_))
      out_.misfit_cells.push_back({line_, rows_, c, std::string(text.substr(0, 60))});
    set_missing(column);
    if (on_misfit_ == OnMisfit::stop) throw misfit_error(where_ + ":" + std::to_string(first_line_ + line_), spec, text);
  }

  // "2016-01-31" and "2016-01-31 12:30:45", also with T.
  const char* iso_time(const char* p, int64_t& ms) {
    const auto two = [&](int at) { return (p[at] - '0') * 10 + (p[at + 1] - '0'); };
    const uint64_t date = load_eight(p);
    // dddd-dd-
    if (((date & 0xFFF0F0FFF0F0F0F0) != 0x2D30302D30303030) ||
        (((date + 0x0006060006060606) & 0xF0F0F0F0F0F0F0F0) != (0x2D30302D30303030 & 0xF0F0F0F0F0F0F0F0)))
      return nullptr;
    const auto digit = [&](int at) { return static_cast<unsigned char>(p[at] - '0') < 10; };
    if (!digit(8) || !digit(9)) return nullptr;
    const uint64_t key = (date & 0x000F0F000F0F0F0F) | static_cast<uint64_t>(static_cast<unsigned char>(p[8])) << 56 |
                         static_cast<uint64_t>(static_cast<unsigned char>(p[9])) << 32;
    if (key != last_date_) {
      const int year = two(0) * 100 + two(2), month = two(5), day = two(8);
      int64_t checked = 0;
      if (!parse_iso_time({p, 10}, checked)) return nullptr;
      last_ms_ = ms_of_date(year, month, day);
      last_date_ = key;
    }
    ms = last_ms_;
    p += 10;
    if (*p != ' ' && *p != 'T') return p;
    if (!digit(1) || !digit(2) || p[3] != ':' || !digit(4) || !digit(5) || p[6] != ':' || !digit(7) || !digit(8)) return nullptr;
    const int hour = two(1), minute = two(4), second = two(7);
    if (hour > 23 || minute > 59 || second > 59) return nullptr;
    ms += (hour * 3600 + minute * 60 + second) * 1000;
    return p + 9;
  }

  const char *begin_, *end_;
  const CsvPlan& plan_;
  const Dialect& dialect_;
  const std::string& where_;
  int64_t first_line_;
  OnMisfit on_misfit_;
  CsvBlock& out_;
  char delimiter_, quote_;
  bool trims_, quoted_ = false;
  bool starts_missing_[256] = {}, empty_is_missing_ = false;
  uint64_t delimiters_, quotes_, last_date_ = 0;
  int64_t last_ms_ = 0, rows_ = 0, line_ = 0;
  size_t most_ = 0;
  std::string unescaped_;
  std::vector<std::unique_ptr<CategoryTable>> tables_;
};

}  // namespace

Error misfit_error(std::string place, const ColumnSpec& spec, std::string_view text, const char* missing) {
  return Error(ErrorKind::data, {.where = std::move(place),
                                 .what = "the value does not fit the column '" + spec.name + "'",
                                 .got = "'" + std::string(text.substr(0, 40)) + "'",
                                 .expected = std::string(spec.type == Type::integer ? "an " : "a ") + type_text(spec.type),
                                 .hint = std::string("change the column's type in the schema, or ") + missing});
}

void parse_csv_block(std::string_view block, const CsvPlan& plan, const std::string& where, int64_t first_line, OnMisfit on_misfit,
                     CsvBlock* out) {
  BlockParser(block, plan, where, first_line, on_misfit, out).run();
}

}  // namespace perigee::tables
