// The machine and the program.
#include <cmath>

#include "src/report/html.h"
#include "src/report/section.h"

namespace perigee {
namespace {

constexpr size_t kMostFacts = 40, kEnvironmentLongest = 300;

SectionText make_environment(const RunFiles& run) {
  const Json none = Json::object();
  const Json& start = run.last("start") ? *run.last("start") : none;
  std::vector<std::pair<std::string, std::string>> facts;
  const auto& known = members_in(run.details, {"environment"});
  for (const auto& [name, value] : known) {
    if (facts.size() == kMostFacts) break;
    if (name == "memory_bytes") facts.emplace_back("memory", value.is_number() ? bytes_number(value.as_number()) : "");
    else
      facts.emplace_back(name == "version" ? "Perigee" : name,
                         shortened(value.is_string() ? value.as_string() : value.dump(), kEnvironmentLongest));
  }
  if (known.empty()) {
    facts.emplace_back("Perigee", shortened(text_in(start, {"version"}), kEnvironmentLongest));
    if (const double threads = number_in(start, {"threads"}); std::isfinite(threads))
      facts.emplace_back("threads", grouped_number(threads));
    facts.emplace_back("device", shortened(text_in(start, {"device"}), kEnvironmentLongest));
  }
  if (const double bytes = number_in(start, {"memory_bytes"}); std::isfinite(bytes))
    facts.emplace_back("training takes", bytes_number(bytes));
  facts.emplace_back("data folder", shortened(text_in(start, {"data_folder"}), kEnvironmentLongest));
  const std::string html = facts_html(facts);
  return {html, "The log has no start, and the folder no details.json."};
}

}  // namespace

extern const Section section_environment;
const Section section_environment{.id = "environment", .title = "Environment", .make = make_environment};

}  // namespace perigee
