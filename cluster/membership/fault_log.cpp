#include "cluster/membership/fault_log.h"

#include <cstring>

namespace perigee {
namespace {

std::string text_of(const Json& event, const char* key) {
  const Json* value = event.find(key);
  return value && value->is_string() ? value->as_string() : "";
}

// The program begins its last words with its own name, as on a terminal.
std::string last_line(const std::string& tail) {
  std::string line = tail.substr(tail.rfind('\n') == std::string::npos ? 0 : tail.rfind('\n') + 1);
  if (line.starts_with("perigee: ")) line.erase(0, 9);
  constexpr size_t kMostBytes = 1000;  // what is largest on a GPU and which batch fits ends at about 600
  return line.substr(0, kMostBytes);
}

bool left_by_itself(const ProcessEnd& end) { return end.signal == 0 && (end.code == 0 || end.code == 130 || end.code == 143); }

}  // namespace

std::string cause_of(const ProcessEnd& end) {
  const std::string words = last_line(end.tail);
  std::string cause = end.signal != 0 ? "killed by signal " + std::to_string(end.signal) + " (" + strsignal(end.signal) + ")"
                                      : "ended with code " + std::to_string(end.code);
  if (!words.empty() && end.signal != 9 && end.signal != 15) cause += ": " + words;
  return cause;
}

void FaultLog::tell(Json event, const ProcessEnd& end) {
  if (text_of(event, "event") != "worker_kicked") event.set("cause", cause_of(end));
  const std::string done = text_of(event, "done");
  const std::string agent = !end.next.empty() ? end.next : end.restarted ? "it is started again" : "it is not started again";
  event.set("done", done.empty() ? agent : done + "; " + agent);
  sink_(event);
}

void FaultLog::tell(const ProcessEnd& end) {
  if (left_by_itself(end)) return;  // told by the coordinator, as a worker that left
  tell(Json(Json::Object{
           {"event", end.standby ? "standby_lost" : "worker_lost"}, {end.standby ? "standby" : "worker", end.worker}, {"host", end.agent}}),
       end);
}

void FaultLog::event(const Json& event, double now_s) {
  const std::string kind = text_of(event, "event");
  if (kind != "worker_lost" && kind != "worker_kicked" && kind != "standby_lost") return sink_(event);
  const std::string worker = text_of(event, kind == "standby_lost" ? "standby" : "worker");
  if (const auto found = ended_.find(worker); found != ended_.end()) {
    tell(event, found->second.end);
    ended_.erase(found);
    return;
  }
  // Its process has not ended, or that was told long ago: there is nothing to wait for.
  if (text_of(event, "cause").starts_with("silent ")) return sink_(event);
  if (const auto found = lost_.find(worker); found != lost_.end()) sink_(found->second.event);
  lost_[worker] = {event, now_s};
}

void FaultLog::ended(const ProcessEnd& end, double now_s) {
  if (const auto found = lost_.find(end.worker); found != lost_.end()) {
    if (left_by_itself(end)) sink_(found->second.event);
    else tell(found->second.event, end);
    lost_.erase(found);
    return;
  }
  if (const auto found = ended_.find(end.worker); found != ended_.end()) tell(found->second.end);
  ended_[end.worker] = {end, now_s};
}

void FaultLog::tick(double now_s) {
  for (auto at = lost_.begin(); at != lost_.end();) {
    if (now_s - at->second.since_s < kWaitSeconds) {
      ++at;
      continue;
    }
    sink_(at->second.event);
    at = lost_.erase(at);
  }
  for (auto at = ended_.begin(); at != ended_.end();) {
    if (now_s - at->second.since_s < kWaitSeconds) {
      ++at;
      continue;
    }
    tell(at->second.end);
    at = ended_.erase(at);
  }
}

void FaultLog::flush() { tick(1e300); }

}  // namespace perigee
