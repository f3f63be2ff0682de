#include "repl/commands/describe/link.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "cluster/launch/link_fit.h"
#include "cluster/policy/describe_policy.h"
#include "cluster/policy/policy.h"
#include "cluster/replica/step_times.h"
#include "repl/commands/quantity.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr uint64_t kMostBytes = 1 << 20;

double link_number(const Json& json, const char* name) { return json.find(name)->as_number(); }

// Bytes that a worker sends in one exchange, or with a server both ways: they take turns.
double bytes_of(const Json& averaging) {
  if (const Json* served = averaging.find("exchange_bytes")) return link_number(*served, "up") + link_number(*served, "down");
  const Json* fragments = averaging.find("fragments");
  const Json* list = fragments ? fragments->find("bytes") : averaging.find("bytes");
  for (const Json& one : list->as_array())
    if (*one.find("topology") == Json("direct")) return link_number(one, fragments ? "mean" : "bytes");
  return 0;
}

Json told(const std::string& policy, const ExchangeCost& cost, bool measured) {
  Json link = cost.to_json();
  link.set("measured", measured);
  link.set("training_share", cost.training_share());
  if (!cost.fits()) link.set("warning", why_not_fit(policy, cost));
  return link;
}

double step_seconds(const Job& job, const std::string& step_time, double* parameters) {
  const MeasuredJob about = step_time.empty() ? measure_job(job, 0, stop_requested()) : inspect_job(job, 0);
  *parameters = static_cast<double>(about.facts.parameters);
  const double seconds = step_time.empty() ? about.times.step_ms * 1e-3 : parse_duration(step_time, "--step-time");
  if (seconds <= 0) throw Error(ErrorKind::usage, {"--step-time", "takes no time", "'" + step_time + "'", "more than 0"});
  return seconds;
}

}  // namespace

Json describe_link(const Job& job, const Json& averaging, const LinkQuestion& question) {
  const Policy policy = read_policy(job.json().find("averaging"), job.where());
  if (question.bandwidth.empty()) {
    if (!question.step_time.empty())
      throw Error(ErrorKind::usage,
                  {.where = "--step-time", .what = "says how a link is used, but none is given", .hint = "add --bandwidth 2Mbit"});
    const std::string file = question.folder + "/link.json";
    if (question.folder.empty() || !file_exists(file)) return {};
    const std::optional<ExchangeCost> cost = read_exchange_cost(Json::parse(as_text(read_file(file, kMostBytes)), file));
    return cost ? told(policy.name, *cost, true) : Json();
  }
  const double bits = parse_bandwidth(question.bandwidth, "--bandwidth");
  double parameters = 0;
  const double step_s = step_seconds(job, question.step_time, &parameters);
  const double steps = policy.what != Policy::What::parameters ? 1
                       : policy.every_ms > 0                   ? std::max(1.0, policy.round_ms() * 1e-3 / step_s)
                                                               : static_cast<double>(policy.steps_per_round());
  ExchangeCost cost{.train_s = steps * step_s,
                    .steps = static_cast<int64_t>(steps),
                    .sent_bytes = bytes_of(averaging),
                    .block_bytes = 4 * parameters,
                    .workers = static_cast<int>(kDescribedWorkers)};
  cost.transfer_s = std::isinf(bits) ? 0 : cost.sent_bytes * 8 / bits;
  return told(policy.name, cost, false);
}

void print_link(const Json& link) {
  std::printf("link%s: %s of training, then %s for %s to be sent: %.0f %% of a worker's time is left for training\n",
              link.find("measured")->as_bool() ? ", as this run measured it" : "", span_text(link_number(link, "train_s")).c_str(),
              span_text(link_number(link, "transfer_s")).c_str(), amount_text(link_number(link, "sent_bytes")).c_str(),
              100 * link_number(link, "training_share"));
  if (const Json* warning = link.find("warning")) std::printf("warning: %s\n", warning->as_string().c_str());
}

}  // namespace perigee
