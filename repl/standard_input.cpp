#include "repl/standard_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "repl/signals.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kMost = size_t{1} << 34;
constexpr size_t kPiece = size_t{1} << 16;

}  // namespace

Bytes read_standard_input() {
  if (isatty(STDIN_FILENO))
    throw Error(ErrorKind::usage,
                {.where = "-", .what = "standard input is a terminal", .hint = "pipe a table into it: perigee predict MODEL - < new.csv"});
  Bytes bytes;
  while (!stop_requested()) {
    const size_t size = bytes.size();
    bytes.resize(size + kPiece);
    const ssize_t got = read(STDIN_FILENO, bytes.data() + size, kPiece);
    bytes.resize(size + static_cast<size_t>(got > 0 ? got : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(ErrorKind::data, {.where = kStandardInput, .what = "cannot be read", .got = std::strerror(errno)});
    if (got == 0) break;
    if (bytes.size() > kMost) throw Error(ErrorKind::resources, {.where = kStandardInput, .what = "is longer than 16 GiB"});
  }
  return bytes;
}

void for_each_line(std::FILE* file, const std::function<void(std::string_view line)>& take) {
  std::string line;
  char buffer[kPiece];
  while (std::fgets(buffer, sizeof buffer, file) != nullptr) {
    line += buffer;
    if (!line.ends_with('\n')) continue;
    line.pop_back();
    take(line);
    line.clear();
  }
  if (!line.empty()) take(line);
}

}  // namespace perigee
