// Options of the job that change while a cluster trains: those that are set from outside, and the rate that falls on a plateau.
#include "cluster/launch/cluster_session.h"
#include "cluster/protocol/frame.h"
#include "src/optim/optimizer.h"
#include "src/run/run_settings.h"

namespace perigee {

void ClusterSession::add_settings(CoordinatorOptions* options) const {
  options->check_option = [this](const Json& settings, const std::string& option, const Json& value) {
    const RunSettings before = settings_of(job_.job, settings);
    const std::string name = before.resolve(option);
    const std::string& where = job_.job.where();
    if (name.starts_with("loss.") || name.starts_with("terms.")) {
      before.with(name, value);
      Schedule(value, where + ": " + name);
      return name;
    }
    Optimizer(optimizer_options(job_.job.json()), {}, where).change(optimizer_options(before.with(name, value)), where);
    return name;
  };
  options->list_options = [this](const Json& settings) { return settings_of(job_.job, settings).list(); };
}

// The job's rate times what "reduce_on_plateau" has made of it.
Json ClusterSession::scaled_rate(double factor) const {
  const Json* optimizer = job_.job.json().find("optimizer");
  return Json(
      Json::Object{{"type", "scaled"}, {"schedule", rate_in(optimizer ? *optimizer : Json(), job_.job.where())}, {"factor", factor}});
}

// The workers update by it from the next generation on.
void ClusterSession::tell_rate() {
  const Json rate = scaled_rate(judge_.rate_factor());
  coordinator_->steer(Json(Json::Object{{"set", Json(Json::Object{{"option", "optimizer.lr"}, {"value", rate}})}}));
}

// The rate that a cluster is told stands for that of the weights alone, and a recorded run is trained again as its job says.
void ClusterSession::check_plateau(bool recorded) const {
  if (!judge_.reduces_rate()) return;
  const std::string where = job_.job.where() + ": reduce_on_plateau";
  const Json* optimizer = job_.job.json().find("optimizer");
  if (optimizer && optimizer->is_object() && optimizer->find("bias_lr"))
    throw Error(ErrorKind::model, {.where = where,
                                   .what = "does not go with a learning rate of biases in a cluster",
                                   .got = "optimizer: bias_lr",
                                   .hint = "leave out bias_lr, or train on one machine"});
  if (recorded)
    throw Error(ErrorKind::usage, {.where = where,
                                   .what = "changes the learning rate, and a recorded run is trained again as its job says",
                                   .hint = "train without --record"});
  const Json rate = scaled_rate(1. / 3);  // now, and not when it falls for the first time
  if (rate.find("schedule")->is_null())
    throw Error(ErrorKind::model, {.where = where,
                                   .what = "needs an optimiser with a learning rate",
                                   .got = optimizer ? optimizer->dump() : "none",
                                   .expected = "one such as \"adam\""});
  if (const size_t bytes = rate.dump().size(); bytes > kMaxText / 2)
    throw Error(ErrorKind::model, {.where = where,
                                   .what = "the learning rate's schedule is too long to be told to workers",
                                   .got = std::to_string(bytes) + " bytes of JSON",
                                   .expected = "at most " + std::to_string(kMaxText / 2),
                                   .hint = "take a schedule of fewer points, or train on one machine"});
}

}  // namespace perigee
