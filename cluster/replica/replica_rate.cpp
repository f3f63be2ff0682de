// A learning rate in place of the job's, told while the run goes on.
#include <optional>

#include "cluster/replica/trainer_replica.h"
#include "src/core/json.h"
#include "src/optim/optimizer.h"

namespace perigee {
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
  const Json* optimizer = trainer.job().json().find("optimizer");
  trainer.set_learning_rate(schedule.empty() ? rate_in(optimizer ? *optimizer : Json(), trainer.job().where())
                                             : Json::parse(schedule, "lr"));
}

}  // namespace perigee
