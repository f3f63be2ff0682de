#include "src/report/run_files.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestFile = uint64_t{1} << 28;

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
  std::ifstream file(folder + "/log.jsonl");
  for (std::string line; std::getline(file, line);) {
    try {
      run.events.push_back(Json::parse(line, "log.jsonl"));
    } catch (const Error&) {
      // a line that was cut off when the machine went down
    }
  }
  return run;
}

}  // namespace perigee
