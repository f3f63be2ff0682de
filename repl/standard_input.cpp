#include "repl/standard_input.h"

#include <sys/stat.h>
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
  const auto refuse = [] { throw Error(ErrorKind::resources, {kStandardInput, "is too long", "", "at most 16 GiB", "give a part of it"}); };
  struct stat about {};
  if (fstat(STDIN_FILENO, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > static_cast<off_t>(kMost)) refuse();
  Bytes bytes;
  while (!stop_requested()) {
    const size_t size = bytes.size();
    bytes.resize(size + kPiece);
    const ssize_t got = read(STDIN_FILENO, bytes.data() + size, kPiece);
    bytes.resize(size + static_cast<size_t>(got > 0 ? got : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(ErrorKind::data, {.where = kStandardInput, .what = "cannot be read", .got = std::strerror(errno)});
    if (got == 0) break;
    if (bytes.size() > kMost) refuse();
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
