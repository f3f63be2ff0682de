#include "src/report/run_files.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>

#include "src/core/error.h"
#include "src/io/file.h"
#include "src/io/lines.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestFile = uint64_t{1} << 28;

// A log may be longer than a page can show, or memory hold: of each kind of event some are read, evenly over the whole log, and all of the
// latest.
struct LogKind {
  std::string_view name;  // "": all others
  size_t most, latest;
  size_t lines = 0, seen = 0;

  bool keeps() {
    const size_t at = seen++, every = most == 0 ? 0 : (lines + most - 1) / most;
    return at + latest >= lines || (every > 0 && at % every == 0);
  }
};

class LogKinds {
 public:
  // By the first member, as RunLog writes it: lines that are left out are not parsed.
  LogKind& of(std::string_view line) {
    constexpr std::string_view kBegin = R"({"event":")";
    if (line.starts_with(kBegin)) line.remove_prefix(kBegin.size());
    const std::string_view name = line.substr(0, line.find('"'));
    for (LogKind& kind : kinds_)
      if (kind.name == name) return kind;
    return kinds_.back();
  }

 private:
  std::array<LogKind, 7> kinds_ = {{{"step", 20000, 200},
                                    {"epoch", 20000, 200},
                                    {"workers", 0, 1},
                                    {"start", 100, 1},
                                    {"end", 100, 1},
                                    {"error", 100, 1},
                                    {"", 1000, 200}}};
};

void read_log(const std::string& folder, RunFiles* run) {
  LogKinds kinds;
  const auto each_line = [&](const std::function<void(std::string_view)>& take) {
    LineReader lines(folder + "/log.jsonl");
    while (const std::optional<std::string_view> line = lines.next()) take(*line);
    if (!lines.rest().empty()) take(lines.rest());
  };
  each_line([&](std::string_view line) { ++kinds.of(line).lines; });
  size_t bytes = 0;
  each_line([&](std::string_view line) {
    LogKind& kind = kinds.of(line);
    const bool kept = kind.keeps() && bytes + line.size() <= kLargestFile;
    if (kept) bytes += line.size();
    if (Json event = kept ? json_on_line(line) : Json(); event.is_object()) run->events.push_back(std::move(event));
    else if (kept) return;
    else if (kind.name == "epoch") ++run->epochs_left_out;
    else if (kind.name.empty()) ++run->others_left_out;
  });
}

Json read_json(const std::string& path) {
  std::error_code status;
  const auto size = fs::file_size(path, status);
  if (status || size > kLargestFile) return {};
  try {
    const Bytes bytes = read_file(path);
    return Json::parse(as_text(bytes), path);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

const Json* member(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* at = &json;
  for (const std::string_view name : path) {
    at = at->find(name);
    if (!at) return nullptr;
  }
  return at;
}

double number_in(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* found = member(json, path);
  return found && found->is_number() ? found->as_number() : NAN;
}

std::string text_in(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* found = member(json, path);
  return found && found->is_string() ? found->as_string() : "";
}

const Json::Array& list_in(const Json& json, std::initializer_list<std::string_view> path) {
  static const Json::Array kNone;
  const Json* found = member(json, path);
  return found && found->is_array() ? found->as_array() : kNone;
}

const Json::Object& members_in(const Json& json, std::initializer_list<std::string_view> path) {
  static const Json::Object kNone;
  const Json* found = member(json, path);
  return found && found->is_object() ? found->as_object() : kNone;
}

bool is_event(const Json& event, std::string_view kind) {
  const Json* found = event.find("event");
  return found && found->is_string() && found->as_string() == kind;
}

const Json* RunFiles::first(std::string_view kind) const {
  for (const Json& event : events)
    if (is_event(event, kind)) return &event;
  return nullptr;
}

const Json* RunFiles::last(std::string_view kind) const {
  for (auto event = events.rbegin(); event != events.rend(); ++event)
    if (is_event(*event, kind)) return &*event;
  return nullptr;
}

const Json* RunFiles::outcome() const {
  for (auto event = events.rbegin(); event != events.rend(); ++event)
    if (is_event(*event, "start") || is_event(*event, "end") || is_event(*event, "error")) return &*event;
  return nullptr;
}

const Json& RunFiles::evaluated() const {
  const Json* other = member(details, {"evaluation", "report"});
  return report.is_object() || !other || !other->is_object() ? report : *other;
}

const Json* RunFiles::evaluation() const {
  const Json* found = details.find("evaluation");
  return found && found->is_object() ? found : nullptr;
}

std::string RunFiles::job_name() const {
  const std::string given = text_in(job, {"name"});
  return given.empty() ? name : given;
}

std::vector<std::string> RunFiles::class_names() const {
  std::vector<std::string> names;
  for (const Json& each : list_in(details, {"evaluation", "class_names"})) names.push_back(each.is_string() ? each.as_string() : "");
  if (!names.empty()) return names;
  for (const char* table : {"classes", "classification"}) {
    const auto& rows = table == std::string_view("classes") ? list_in(evaluated(), {"classes"}) : list_in(evaluated(), {table, "classes"});
    for (const Json& row : rows) names.push_back(text_in(row, {"name"}));
    if (!names.empty()) return names;
  }
  return names;
}

RunFiles read_run_files(const std::string& folder) {
  if (!file_exists(folder + "/job.json") && !file_exists(folder + "/log.jsonl"))
    throw Error(ErrorKind::usage, {.where = folder,
                                   .what = folder_exists(folder) ? "there is no run in this folder" : "there is no such folder",
                                   .expected = "a run's folder, with job.json and log.jsonl"});
  RunFiles run;
  run.folder = folder;
  std::error_code status;
  const fs::path whole = fs::weakly_canonical(folder, status);
  run.name = whole.filename().string();
  run.job = read_json(folder + "/job.json");
  run.report = read_json(folder + "/report.json");
  run.details = read_json(folder + "/details.json");
  read_log(folder, &run);
  return run;
}

}  // namespace perigee
