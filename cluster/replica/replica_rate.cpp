// A learning rate in place of the job's, told while the run goes on.
#include <optional>

#include "cluster/replica/trainer_replica.h"
#include "src/core/json.h"
#include "src/optim/optimizer.h"

namespace perigee {
namespace {

Json rate_of_job(const Job& job) {
  const Json* optimizer = job.json().find("optimizer");
  if (const Json* rate = optimizer ? optimizer->find("lr") : nullptr) return *rate;
  const Json* type = optimizer && optimizer->is_object() ? optimizer->find("type") : optimizer;
  const OptimizerDef& def = optimizer_named(type && type->is_string() ? type->as_string() : "", job.where());
  const Option* rate = def.schema.find("lr");
  return rate ? fallback_value(*rate) : Json();  // a rule without one refuses any rate
}

}  // namespace

void TrainerReplica::set_learning_rate(const std::string& schedule) {
  const std::lock_guard lock(rate_mutex_);
  rate_ = schedule;
  rate_told_ = true;
}

// Trainer thread, before each order and each result. A replica is told before it is asked to apply a result.
void TrainerReplica::take_rate() {
  if (!rate_told_ || !trainer_) return;
  std::string schedule;
  {
    const std::lock_guard lock(rate_mutex_);
    schedule = rate_;
    rate_told_ = false;
  }
  Trainer& trainer = trainer_->trainer();
  trainer.set_learning_rate(schedule.empty() ? rate_of_job(trainer.job()) : Json::parse(schedule, "lr"));
}

}  // namespace perigee
