#include "cluster/replica/line_rounds.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace perigee {
namespace {

struct GivenUp {};

}  // namespace

LineRounds::LineRounds(Trainer& trainer)
    : trainer_(trainer),
      lines_(*trainer.lines()),
      point_(trainer.model().params().block_bytes()),
      result_(trainer.model().params().block_bytes()) {}

LineRounds::~LineRounds() { drop(); }

void LineRounds::begin(const TrainOrder& order) {
  drop();
  if (order.restart) lines_.minimizer().lose_value();  // who has joined does not know it
  search(lines_.is_whole(order.examples_per_step));
}

void LineRounds::search(bool whole) {
  assert(stage_ == Stage::over);
  whole_ = whole;
  std::memcpy(point_.data(), std::as_const(trainer_).model().params().block(), point_.size());
  const auto pause = [this](Stage stage) {
    stage_ = stage;
    lockstep_.pause();
    if (give_up_) throw GivenUp();
  };
  lockstep_.begin([this, pause] {
    const auto value_at = [&](std::byte* gradient) {
      gradient_ = gradient;
      pause(Stage::asks);
      return value_;
    };
    lines_.minimizer().iterate(point_.data(), lines_.slots().data(), whole_, value_at, [&] { pause(Stage::settles); });
  });
  begins_ = !(whole && !lines_.minimizer().wants_start());
  lockstep_.resume();
}

// The sum is of the trial point's gradient, the rest of the trainer's numbers those of the result.
GradientReport LineRounds::sum_gradient(const Batch& batch, const GradientTarget& target, const std::atomic<bool>* cancel) {
  std::byte* const parameters = trainer_.model().params().block();
  std::memcpy(result_.data(), parameters, result_.size());
  std::memcpy(parameters, point_.data(), point_.size());
  const GradientReport report = trainer_.sum_gradient(batch, target, cancel);
  std::memcpy(parameters, result_.data(), result_.size());
  return report;
}

bool LineRounds::take(const MergedSum& sum) {
  assert(stage_ != Stage::over);
  if (sum.mixed) {  // a worker does not know the value here, as the others do: all evaluate it
    drop();
    lines_.minimizer().lose_value();
    search(whole_);
    return true;
  }
  if (stage_ == Stage::settles) return false;
  std::memcpy(gradient_, sum.gradient, point_.size());
  value_ = lines_.value_of(sum.loss, sum.weight, trainer_.step_progress(), point_.data(), gradient_);
  if (!std::isfinite(value_)) value_ = std::numeric_limits<double>::infinity();
  begins_ = false;
  lockstep_.resume();
  return stage_ == Stage::asks;
}

void LineRounds::apply() {
  assert(stage_ == Stage::settles);
  [[maybe_unused]] const bool more = lockstep_.resume();
  assert(!more);
  stage_ = Stage::over;
  std::memcpy(trainer_.model().params().block(), point_.data(), point_.size());
  trainer_.count_step();
}

void LineRounds::drop() {
  if (stage_ == Stage::over) return;
  give_up_ = true;
  try {
    lockstep_.resume();
    assert(false);
  } catch (const GivenUp&) {}
  give_up_ = false;
  stage_ = Stage::over;
}

}  // namespace perigee
