#include "repl/editor/history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

// One entry is one line of the file.
std::string escaped(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\n') line += "\\n";
    else if (c == '\\') line += "\\\\";
    else line += c;
  }
  return line + "\n";
}

std::string unescaped(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) entry += line[i];
    else entry += line[++i] == 'n' ? '\n' : line[i];
  }
  return clean_text(entry);
}

// A file that no other session changes while this lives.
class LockedFile {
 public:
  LockedFile(const std::string& path, int flags) {
    for (int attempt = 0; attempt < 100; ++attempt) {  // another session may have put a new file in its place meanwhile
      file_ = open(path.c_str(), flags | O_CLOEXEC, 0600);
      if (file_ < 0) return;
      struct stat here {
      }, there{};
      if (flock(file_, LOCK_EX) == 0 && fstat(file_, &here) == 0 && stat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino) return;
      close(std::exchange(file_, -1));
    }
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile() {
    if (file_ >= 0) close(file_);
  }
  bool ok() const { return file_ >= 0; }

  std::string read() const {
    std::string text;
    char part[16384];
    for (ssize_t count = 0; text.size() < kMaxFileBytes && (count = ::read(file_, part, sizeof part)) > 0;)
      text.append(part, static_cast<size_t>(count));
    return text;
  }
  bool write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::write(file_, text.data(), text.size());
      if (count <= 0) return false;
      text.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

 private:
  int file_ = -1;
};

std::vector<std::string> last_lines(std::string_view text, size_t count) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1)
    if (end > begin && end - begin <= 2 * History::kMaxEntryBytes) lines.emplace_back(text.substr(begin, end - begin));
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace

std::string History::default_path() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state == '/') return std::string(state) + "/perigee/history";
  if (const char* home = std::getenv("HOME"); home && *home == '/') return std::string(home) + "/.local/state/perigee/history";
  return "";
}

History::History(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  size_t lines = 0;
  {
    const LockedFile file(path_, O_RDONLY);
    if (!file.ok()) return;
    const std::string text = file.read();
    for (const char c : text) lines += c == '\n';
    for (const std::string& line : last_lines(text, kMaxEntries)) entries_.push_back(unescaped(line));
  }
  if (lines > 2 * kMaxEntries) cut();
}

void History::add(const std::string& entry) {
  if (entry.empty() || entry[0] == ' ' || entry.size() > kMaxEntryBytes) return;
  if (!entries_.empty() && entries_.back() == entry) return;
  entries_.push_back(entry);
  if (entries_.size() > kMaxEntries) entries_.erase(entries_.begin());
  if (!path_.empty()) append(escaped(entry));
}

// A prompt works without its history: what cannot be written is left out.
void History::append(const std::string& line) const {
  std::error_code status;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), status);
  const LockedFile file(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (file.ok()) file.write(line);
}

void History::cut() const {
  const LockedFile file(path_, O_RDONLY);
  if (!file.ok()) return;
  const std::string fresh = path_ + "." + std::to_string(getpid());
  {
    const LockedFile target(fresh, O_WRONLY | O_CREAT | O_TRUNC);
    std::string text;
    for (const std::string& line : last_lines(file.read(), kMaxEntries)) text += line + "\n";
    if (target.ok() && target.write(text)) rename(fresh.c_str(), path_.c_str());
  }
  unlink(fresh.c_str());
}

}  // namespace perigee
