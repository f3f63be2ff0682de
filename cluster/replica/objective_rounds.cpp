#include "cluster/replica/objective_rounds.h"

#include <cmath>
#include <string>

#include "cluster/replica/line_rounds.h"

namespace perigee {

// A step in which none has a turn tells the first one's loss.
void ObjectiveRounds::begin(const TrainOrder&) {
  const size_t first = turns_.next_turn(0, trainer_.step_progress().step);
  updates_ = first < turns_.count();
  at_ = updates_ ? first : 0;
  begins_ = true;
}

bool ObjectiveRounds::take(const MergedSum& sum) {
  begins_ = false;
  if (!updates_) return false;
  if (!std::isfinite(sum.loss))
    throw Error(ErrorKind::model, {.where = trainer_.job().where() + ": step " + std::to_string(trainer_.position().step + 1),
                                   .what = "the loss of " + std::string(turns_.reports()[at_].name) + ", or its gradient, is not finite",
                                   .hint = "try a smaller learning rate, or clip = { type = \"norm\" }"});
  trainer_.update_objective(at_, sum.gradient, sum.weight);
  const size_t next = turns_.next_turn(at_ + 1, trainer_.step_progress().step);
  if (next == turns_.count()) return false;
  at_ = next;
  return true;
}

std::unique_ptr<RepeatedSums> repeated_sums_of(Trainer& trainer) {
  if (trainer.lines()) return std::make_unique<LineRounds>(trainer);
  if (trainer.turns()) return std::make_unique<ObjectiveRounds>(trainer);
  return nullptr;
}

}  // namespace perigee
