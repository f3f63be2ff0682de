// The history of inputs, across sessions: a file that several sessions append to at once and that is cut when it has become long.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace perigee {

class History {
 public:
  static constexpr size_t kMaxEntries = 5000;
  static constexpr size_t kMaxEntryBytes = size_t{64} << 10;

  explicit History(std::string path = "");  // "": of this session alone. A file that cannot be read is an empty one
  // Not what is empty, too long, begins with a blank, or is the last entry again.
  void add(const std::string& entry);
  const std::vector<std::string>& entries() const { return entries_; }

  // $XDG_STATE_HOME/perigee/history, ~/.local/state/perigee/history; "" where neither is known.
  static std::string default_path();

 private:
  void append(const std::string& line) const;
  void cut() const;

  std::string path_;
  std::vector<std::string> entries_;  // oldest first
};

}  // namespace perigee
