// Options of the job that were set while the run goes on.
#include "cluster/replica/trainer_replica.h"
#include "src/core/json.h"
#include "src/run/run_settings.h"

namespace perigee {

void TrainerReplica::set_options(const std::string& settings) {
  const std::lock_guard lock(options_mutex_);
  set_options_ = settings;
  options_told_ = true;
}

// Trainer thread, before each order and each result. A replica is told before it is asked to apply a result.
void TrainerReplica::take_options() {
  if (!options_told_ || !trainer_) return;
  std::string settings;
  {
    const std::lock_guard lock(options_mutex_);
    settings = set_options_;
    options_told_ = false;
  }
  Trainer& trainer = trainer_->trainer();
  const Json set = settings.empty() ? Json::object() : Json::parse(settings, "settings");
  const RunSettings settings_now = settings_of(trainer.job(), set);
  trainer.change_optimizer(settings_now.changed());
  trainer.change_factors(settings_now.changed_terms());
}

}  // namespace perigee
