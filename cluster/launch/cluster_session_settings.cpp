// Options of the job that change while a cluster trains: those that are set from outside, and the rate that falls on a plateau.
#include "cluster/launch/cluster_session.h"
#include "src/optim/optimizer.h"
#include "src/run/run_settings.h"

namespace perigee {

void ClusterSession::add_settings(CoordinatorOptions* options) const {
  options->check_option = [this](const Json& settings, const std::string& option, const Json& value) {
    const RunSettings before = settings_of(job_.job, settings);
    const std::string name = before.resolve(option);
    const std::string& where = job_.job.where();
    Optimizer(optimizer_options(job_.job.json()), {}, where).change(optimizer_options(before.with(name, value)), where);
    return name;
  };
  options->list_options = [this](const Json& settings) { return settings_of(job_.job, settings).list(); };
}

// "reduce_on_plateau": the workers update by the job's rate times the factor from the next generation on.
void ClusterSession::tell_rate() {
  const Json* optimizer = job_.job.json().find("optimizer");
  const Json rate = rate_in(optimizer ? *optimizer : Json(), job_.job.where());
  const Json scaled(Json::Object{{"type", "scaled"}, {"schedule", rate}, {"factor", judge_.rate_factor()}});
  coordinator_->steer(Json(Json::Object{{"set", Json(Json::Object{{"option", "optimizer.lr"}, {"value", scaled}})}}));
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
}

}  // namespace perigee
