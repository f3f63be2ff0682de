#include "src/run/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {

namespace fs = std::filesystem;

std::vector<Json> LogFollower::more() {
  constexpr size_t kPiece = size_t{1} << 16;
  std::vector<Json> events;
  std::ifstream file(file_, std::ios::binary);
  file.seekg(at_);
  std::string piece(kPiece, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    at_ += file.gcount();
    rest_.append(piece, 0, static_cast<size_t>(file.gcount()));
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      try {
        events.push_back(Json::parse(std::string_view(rest_).substr(begin, end - begin), "log.jsonl"));
      } catch (const Error&) {  // a line that was cut off when the machine went down
      }
    }
    rest_.erase(0, begin);
  }
  return events;
}

bool run_is_alive(const std::string& folder) {
  const int log = ::open((folder + "/log.jsonl").c_str(), O_RDONLY | O_CLOEXEC);
  if (log < 0) return false;
  const bool held = ::flock(log, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(log);
  return held;
}

void lock_run(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) return;
}

std::string end_of_run(const Json& event) {
  const Json* kind = event.find("event");
  if (!kind) return "";
  if (*kind == Json("error")) return "failed";
  const Json* stopped = event.find("stopped");
  return *kind != Json("end") ? "" : stopped && *stopped == Json("interrupted") ? "stopped" : "finished";
}

std::string coordinator_of(const std::string& folder) {
  const std::string file = folder + "/cluster.json";
  if (!file_exists(file) || !run_is_alive(folder)) return "";
  const Json identity = Json::parse(as_text(read_file(file)), file);
  const Json* address = identity.find("listen");
  return address && address->is_string() ? address->as_string() : "";
}

std::string newest_run_folder() {
  std::string newest;
  fs::file_time_type when;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator("runs", status)) {
    const fs::file_time_type time = fs::last_write_time(entry.path() / "log.jsonl", status);
    if (!status && (newest.empty() || time > when)) newest = entry.path().string(), when = time;
  }
  return newest;
}

}  // namespace perigee
