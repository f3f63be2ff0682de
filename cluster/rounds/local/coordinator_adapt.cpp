// The coordinator's conclusions from past rounds: the pace of the next ones, and contributions that are left out.
#include <algorithm>
#include <cstdio>
#include <string>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/coordinator.h"

namespace perigee {
namespace {

std::string coordinator_adapt_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double worked_s(const Figures& f) { return f.load_s + f.compute_s; }
double beside_s(const Figures& f) { return f.encode_s + f.wait_s + f.transfer_s + f.apply_s; }

ChangeSize size_of(WorkerId id, const Ready& ready) {
  return {.id = id, .steps = ready.steps, .examples = ready.examples, .norms = ready.norms};
}

}  // namespace

bool LocalCoordinator::leave_out_outlying(const std::vector<WorkerId>& who) {
  std::vector<ChangeSize> sizes;
  for (const WorkerId id : who) sizes.push_back(size_of(id, *c_.nodes.at(id).ready));
  const std::vector<Outlier> outlying = c_.control.guard.outlying(sizes);
  if (outlying.empty() || planted(Bug::outlier_takes_part)) return false;
  const Outlier& first = outlying.front();  // whether others are is found out when the round is about to begin without it
  ++c_.control.outliers;
  Node& node = c_.nodes.at(first.id);
  const std::vector<Range> ranges = node.ready->ranges;
  if (planted(Bug::outlier_lost)) node.leased = without(node.leased, ranges);
  if (planted(Bug::outlier_lost)) return c_.drop_local_work(node), check_begin(), true;
  leave_out(node, ranges, "outlying",
            "changed the parameters by " + coordinator_adapt_number(first.size) + ", where the median is " +
                coordinator_adapt_number(first.median));
  return true;
}

void LocalCoordinator::note_sizes(const std::vector<WorkerId>& who) {
  std::vector<ChangeSize> sizes;
  for (const WorkerId id : who) {
    c_.nodes.at(id).left_out = 0;
    sizes.push_back(size_of(id, *c_.nodes.at(id).ready));
  }
  c_.control.guard.on_begin(sizes);
  if (c_.control.guard.apart() != c_.control.told_apart && c_.control.guard.divergence() > 0) {
    c_.control.told_apart = c_.control.guard.apart();
    if (c_.control.told_apart)
      c_.event("replicas_apart", nullptr,
               "the workers' changes are " + coordinator_adapt_number(c_.control.guard.divergence()) +
                   " times as large as their mean: they work against each other",
               c_.options.policy.pace.automatic ? "the next averages come sooner" : "a smaller 'every' keeps them together");
  }
}

void LocalCoordinator::adapt(const std::vector<Share>& shares) {
  std::vector<RoundTimes> times;
  for (const Share& share : shares) {
    const Node& node = c_.nodes.at(share.id);
    if (share.examples == 0 || !node.ready || !node.done) continue;
    const Figures& f = node.done->figures;
    times.push_back({.id = share.id, .steps = node.ready->steps, .training_s = worked_s(f), .beside_s = beside_s(f)});
  }
  c_.control.pace.on_round(times, c_.control.guard.apart());
  const int64_t every = c_.control.pace.every(), told = c_.control.told_every;
  if (!c_.options.policy.pace.automatic || 4 * std::abs(every - told) <= told) return;
  c_.control.told_every = every;
  c_.event("pace", nullptr,
           "a round takes " + coordinator_adapt_number(1e3 * c_.control.pace.beside_s()) + " ms beside training, a step " +
               coordinator_adapt_number(1e3 * c_.control.pace.step_s()) + " ms",
           "the next averages are every " + std::to_string(every) + " steps");
}

}  // namespace perigee
