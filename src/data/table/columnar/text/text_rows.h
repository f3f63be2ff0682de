// Formats of lines have this in common: chunks of whole lines, and errors that name line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/data/table/reading/csv_rows.h"

namespace perigee::tables {

// A row's line, or a part of it.
struct Line {
  std::string_view text;  // without its end
  int64_t number = 1;

  // `at` points into `text`.
  [[noreturn]] void fail(const std::string& name, const char* at, const std::string& what, std::string_view got,
                         const std::string& expected = "") const {
    throw Error(ErrorKind::data, {.where = name + ":" + std::to_string(number) + ":" + std::to_string(at - text.data() + 1),
                                  .what = what,
                                  .got = "'" + std::string(got.substr(0, 40)) + "'",
                                  .expected = expected});
  }
};

// Lines from `begin` on, the first of which has this number.
class LineReader {
 public:
  explicit LineReader(std::string_view text, size_t begin = 0, int64_t number = 1) : text_(text), at_(begin), number_(number - 1) {}
  bool next(Line& line) {
    if (at_ >= text_.size()) return false;
    const size_t end = text_.find('\n', at_);
    line.text = text_.substr(at_, end == text_.npos ? text_.npos : end - at_);
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    line.number = ++number_;
    at_ = end == text_.npos ? text_.size() : end + 1;
    return true;
  }
  size_t at() const { return at_; }

 private:
  std::string_view text_;
  size_t at_;
  int64_t number_;
};

// Rows that are read together.
struct RowsOfText {
  size_t begin = 0;
  int64_t line = 1, rows = 0;  // of the first; without empty lines and comments
};

// Counts rows into chunks of at most `most`.
class RowChunks {
 public:
  explicit RowChunks(int64_t most) : most_(most) {}
  void add(size_t begin, int64_t line) {
    if (list_.empty() || list_.back().rows == most_) list_.push_back({begin, line, 0});
    ++list_.back().rows;
  }
  std::vector<RowsOfText> take() { return std::move(list_); }

 private:
  int64_t most_;
  std::vector<RowsOfText> list_;
};

}  // namespace perigee::tables
