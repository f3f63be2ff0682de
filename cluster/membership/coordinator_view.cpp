// The coordinator's output for people: the live view, `perigee status`, what was dropped.
#include <algorithm>

#include "cluster/membership/coordinator_core.h"

namespace perigee {

std::vector<WorkerView> CoordinatorCore::views() const {
  static constexpr const char* kNames[] = {"joining", "waiting", "forming", "healing", "training"};
  std::vector<WorkerView> views;
  const uint64_t now = clock.now_ns();
  for (const auto& [id, n] : nodes)
    views.push_back({.id = id,
                     .name = n.name,
                     .host = host_name_in(n.host),
                     .state = kNames[static_cast<size_t>(n.state)],
                     .examples_per_s = n.rate,
                     .share = n.share,
                     .round_trip_ms = n.round_trip_ms,
                     .silent_ms = now > n.heard_ns ? static_cast<double>(now - n.heard_ns) * 1e-6 : 0,
                     .bytes_up = n.bytes_up,
                     .bytes_down = n.bytes_down,
                     .staleness = n.staleness,
                     .step = std::max<int64_t>(0, n.step),
                     .waits_for = n.waits_for});
  return views;
}

RoundView CoordinatorCore::round_view() const {
  const bool by_steps = !rounds->synchronous() && options.policy.every_ms == 0;
  return {.every = by_steps ? control.pace.every() : 0,
          .utilisation = control.pace.utilisation(),
          .divergence = control.guard.divergence(),
          .norms = control.guard.norms(),
          .outliers = control.outliers};
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

Json CoordinatorCore::status() const {
  static constexpr const char* kPhases[] = {"recovering", "waiting for workers", "forming", "running", "stopped"};
  Json json = Json::object();
  const bool held = phase == Phase::running && start_held && pause_told;
  json.set("phase", finished ? "finished" : border ? "evaluating" : held ? "paused" : kPhases[static_cast<size_t>(phase)]);
  json.set("round", books.round());
  json.set("generation", static_cast<int64_t>(generation));
  json.set("examples_done", books.examples_done());
  json.set("planned", options.planned);
  json.set("epoch_examples", options.examples);
  json.set("policy", options.policy.name);
  json.set("steerable", options.steerable);
  if (pause_wanted) json.set("pause", true);
  if (!settings.as_object().empty()) json.set("settings", settings);
  if (options.list_options) json.set("options", options.list_options(settings));
  const bool synchronous = opened_ns == 0 || rounds->synchronous();  // before the first StartEpoch there is nothing to tell of averages
  json.set("synchronous", synchronous);
  if (!synchronous) json.set("averaging", round_view().to_json());
  json.set("ledger_synced", books.synced());
  json.set("min_workers", options.min_workers);
  if (!options.partitions.empty()) {
    Json absent = Json::array();
    for (const std::string& name : partitions.absent()) absent.push(name);
    json.set("absent_partitions", std::move(absent));
  }
  if (options.is_standby) json.set("standby", "this was the standby; it took over from " + options.old_coordinator);
  else if (follower.peer != 0)
    json.set("standby", follower.name + " at " + follower.address + ", has the ledger up to round " + std::to_string(follower.round));
  else if (!options.standby.empty()) json.set("standby", "not there; the agent at " + options.standby + " is to start it");
  if (follower.peer != 0) json.set("standby_address", follower.address);
  add_details(&json);
  Json list = Json::array();
  for (const WorkerView& w : views()) {
    Json line = Json::object();
    line.set("id", int64_t{w.id});
    if (const auto m = std::find(members.begin(), members.end(), w.id); m != members.end())
      line.set("rank", static_cast<int64_t>(m - members.begin()));
    if (nodes.at(w.id).server) line.set("server", true);
    line.set("name", w.name);
    line.set("host", w.host);
    line.set("state", w.state);
    line.set("examples_per_s", w.examples_per_s);
    line.set("share", w.share);
    line.set("round_trip_ms", w.round_trip_ms);
    line.set("silent_ms", w.silent_ms);
    line.set("bytes_up", static_cast<int64_t>(w.bytes_up));
    line.set("bytes_down", static_cast<int64_t>(w.bytes_down));
    line.set("staleness", w.staleness);
    line.set("step", w.step);
    line.set("waits_for", w.waits_for);
    list.push(std::move(line));
  }
  json.set("workers", std::move(list));
  if (options.policy.inner.active()) json.set("inexact", control.inexact);
  json.set("dropped", counters());
  return json;
}

// For watchers over the network: the last round, the policy's point, what the launcher says of the run, what happened lately.
void CoordinatorCore::add_details(Json* json) const {
  if (last.examples > 0) {
    const double examples = static_cast<double>(last.examples);
    Json round = Json::object();
    round.set("examples", last.examples);
    round.set("loss", last.figures.loss_sum / examples);
    if (last.figures.correct >= 0) round.set("accuracy", last.figures.correct / examples);
    round.set("learning_rate", last.figures.learning_rate);
    json->set("last", std::move(round));
  }
  Json point = options.policy.to_json();
  if (control.pace.is_set()) point.set("every", control.pace.every());
  json->set("point", std::move(point));
  json->set("run", about);
  Json events_told = Json::array();
  for (const Json& one : recent) events_told.push(one);
  json->set("events", std::move(events_told));
}

Json CoordinatorCore::counters() const {
  const auto& d = dropped;
  Json json = Json::object();
  json.set("stale", static_cast<int64_t>(d.stale));
  json.set("job", static_cast<int64_t>(d.job));
  json.set("malformed", static_cast<int64_t>(d.malformed));
  json.set("unexpected", static_cast<int64_t>(d.unexpected));
  json.set("reads", static_cast<int64_t>(d.reads));
  return json;
}

}  // namespace perigee
