#include "src/run/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "src/core/utf8.h"
#include "src/io/file.h"

namespace perigee {

namespace fs = std::filesystem;

namespace {

// Its texts without control characters: the log may be another user's, and is shown on this one's terminal.
Json cleaned(const Json& json) {
  if (json.is_string()) return Json(clean_text(json.as_string()));
  if (json.is_array()) {
    Json list = Json::array();
    for (const Json& each : json.as_array()) list.push(cleaned(each));
    return list;
  }
  if (!json.is_object()) return json;
  Json object = Json::object();
  for (const auto& [key, value] : json.as_object()) object.set(clean_text(key), cleaned(value));
  return object;
}

}  // namespace

bool LogFollower::more(const std::function<void(Json)>& take) {
  bool any = false;
  while (const std::optional<std::string_view> line = lines_.next()) {
    const Json event = json_on_line(*line);
    if (!event.is_object()) continue;
    take(cleaned(event));
    any = true;
  }
  return any;
}

bool run_is_alive(const std::string& folder) {
  const int log = ::open((folder + "/log.jsonl").c_str(), O_RDONLY | O_CLOEXEC);
  if (log < 0) return false;
  const bool held = ::flock(log, LOCK_SH | LOCK_NB) != 0;
  ::close(log);
  return held;
}

void lock_run(int descriptor) {
  constexpr int kTries = 20;
  // A watcher that looks whether the run is alive has the lock for a moment.
  for (int i = 0; i < kTries && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
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
