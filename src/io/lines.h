// Reads a file line by line in bounded memory, also while another process appends to it.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/json.h"

namespace perigee {

class LineReader {
 public:
  static constexpr size_t kLongest = size_t{16} << 20;  // bytes; a longer line is left out

  explicit LineReader(std::string path) : path_(std::move(path)) {}
  // The next line without its newline, valid until the next call. Nothing: no more line is complete, or the file is not there yet.
  std::optional<std::string_view> next();
  // The text behind the last newline, once next() has found nothing.
  std::string_view rest() const { return leaves_out_ ? std::string_view() : std::string_view(bytes_); }

 private:
  const std::string path_;
  std::ifstream file_;
  std::string bytes_;  // read and not yet handed on
  size_t begin_ = 0;   // of the next line in it
  bool leaves_out_ = false;
};

// The value on a line of JSON Lines; null when the line is damaged, such as one that was cut off when the machine went down.
Json json_on_line(std::string_view line);

}  // namespace perigee
