// The files of a run's folder, from which its page is made. Nothing in them is trusted: members are looked for, and have the type that is
// wanted or count as absent.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/json.h"

namespace perigee {

struct RunFiles {
  std::string folder;  // as it was named
  std::string name;    // its last part: "lenet-mnist-20261124-120000"
  Json job;            // null, as the next two: no such file, or it is damaged
  Json report, details;
  std::vector<Json> events;                         // of the log, oldest first; of a long one a part
  size_t epochs_left_out = 0, others_left_out = 0;  // of the events "epoch", and of those that are no "step", "epoch" or "workers"

  const Json* first(std::string_view kind) const;  // event of this kind; null: none
  const Json* last(std::string_view kind) const;
  const Json* outcome() const;     // the last of "start", "end", "error"
  const Json& evaluated() const;   // the result of the last evaluation: report.json, or that of the validation data
  const Json* evaluation() const;  // its details; null: none
  std::string job_name() const;
  std::vector<std::string> class_names() const;
};

// Error(usage) when the folder holds no run.
RunFiles read_run_files(const std::string& folder);

// Members by a path of names; absent: null, NaN, "", an empty list.
const Json* member(const Json& json, std::initializer_list<std::string_view> path);
double number_in(const Json& json, std::initializer_list<std::string_view> path);
std::string text_in(const Json& json, std::initializer_list<std::string_view> path);
const Json::Array& list_in(const Json& json, std::initializer_list<std::string_view> path);
const Json::Object& members_in(const Json& json, std::initializer_list<std::string_view> path);

bool is_event(const Json& event, std::string_view kind);

}  // namespace perigee
