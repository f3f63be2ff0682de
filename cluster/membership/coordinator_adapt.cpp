// What the coordinator makes of how rounds went: the pace of the next ones, contributions that are left out, a run that is stopped.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cluster/membership/coordinator_impl.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

std::string number(double value) {
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

bool Coordinator::Impl::leave_out(const std::vector<WorkerId>& who) {
  std::vector<ChangeSize> sizes;
  for (const WorkerId id : who) sizes.push_back(size_of(id, *nodes.at(id).ready));
  const std::vector<Outlier> outlying = guard.outlying(sizes);
  if (outlying.empty() || planted(Bug::outlier_takes_part)) return false;
  const Outlier& first = outlying.front();  // whether others are is found out when the round is about to begin without it
  ++outliers;
  Node& node = nodes.at(first.id);
  const std::vector<Range> ranges = node.ready->ranges;
  if (planted(Bug::outlier_lost)) node.leased = without(node.leased, ranges);
  if (planted(Bug::outlier_lost)) return drop_local_work(node), check_begin(), true;
  leave_out(node, ranges, "outlying", "changed the parameters by " + number(first.size) + ", where the median is " + number(first.median));
  return true;
}

void Coordinator::Impl::taken(const std::vector<WorkerId>& who) {
  std::vector<ChangeSize> sizes;
  for (const WorkerId id : who) {
    nodes.at(id).left_out = 0;
    sizes.push_back(size_of(id, *nodes.at(id).ready));
  }
  guard.on_begin(sizes);
  if (guard.apart() != told_apart && guard.divergence() > 0) {
    told_apart = guard.apart();
    if (told_apart)
      event("replicas_apart", nullptr,
            "the workers' changes are " + number(guard.divergence()) + " times as large as their mean: they work against each other",
            options.policy.pace.automatic ? "the next averages come sooner" : "a smaller 'every' keeps them together");
  }
}

void Coordinator::Impl::adapt(const std::vector<Share>& shares) {
  if (standing) return;
  std::vector<RoundTimes> times;
  for (const Share& share : shares) {
    const Node& node = nodes.at(share.id);
    if (share.examples == 0 || !node.ready || !node.done) continue;
    const Figures& f = node.done->figures;
    times.push_back({.id = share.id, .steps = node.ready->steps, .training_s = worked_s(f), .beside_s = beside_s(f)});
  }
  pace.on_round(times, guard.apart());
  const int64_t every = pace.every(), told = told_every;
  if (!options.policy.pace.automatic || 4 * std::abs(every - told) <= told) return;
  told_every = every;
  event("pace", nullptr,
        "a round takes " + number(1e3 * pace.beside_s()) + " ms beside training, a step " + number(1e3 * pace.step_s()) + " ms",
        "the next averages are every " + std::to_string(every) + " steps");
}

RoundView Coordinator::Impl::round_view() const {
  const bool by_steps = !standing && options.policy.every_ms == 0;
  return {.every = by_steps ? pace.every() : 0,
          .utilisation = pace.utilisation(),
          .divergence = guard.divergence(),
          .norms = guard.norms(),
          .outliers = outliers};
}

Json RoundView::to_json() const {
  const auto or_null = [](double value) { return value < 0 ? Json() : Json(value); };
  return Json(Json::Object{{"every", every > 0 ? Json(every) : Json()},
                           {"utilisation", or_null(utilisation)},
                           {"divergence", or_null(divergence)},
                           {"change_norm", or_null(norms.change)},
                           {"residual_norm", or_null(norms.residual)},
                           {"parameters_norm", or_null(norms.parameters)},
                           {"outliers", outliers}});
}

// True: the run has ended.
bool Coordinator::Impl::diverged(const Figures& figures, int64_t examples, int workers) {
  if (examples == 0) return false;
  if (standing || !options.policy.guard.divergence) return false;
  if (std::exchange(gain_workers, workers) != workers) gain = options.policy.gain(workers);
  const std::string why = guard.on_round({.round = books.round(),
                                          .loss = figures.loss_sum / static_cast<double>(examples),
                                          .progress = progress(),
                                          .workers = workers,
                                          .gain = gain});
  if (why.empty()) return false;
  std::string hint = "lower the learning rate";
  if (gain > 1.5) hint = "lower the outer momentum or rate";
  if (options.policy.coded()) hint += ", or send more: a codec of more bits, or feedback that decays";
  fail(Error(ErrorKind::model, {.where = "averaging",
                                .what = "the run diverges",
                                .got = why + "; outer gain " + number(gain) + " with " + std::to_string(workers) + " workers",
                                .hint = hint + "; guard = false lets it go on"}));
  return true;
}

}  // namespace perigee
