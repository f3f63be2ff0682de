// Weights of losses and of layers' terms that are schedules: { digit = { type = "mse", weight = pg.linear { from = 1, to = 0 } } }, or
// pg.vae { kl = pg.ramp { ... } }. Plans that train read each as an input; this holds what they read in the step at hand.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/view.h"
#include "src/nn/layer.h"
#include "src/optim/schedule.h"

namespace perigee {

// The name of a factor where it is set while a run trains: "loss.digit.weight" of a loss of several, "terms.vae1.kl" of a layer's term.
std::string option_of_factor(const LossFactor& factor);

class LossFactors {
 public:
  LossFactors() = default;
  // `examples`: of a step as a rule. Error(model) where a schedule cannot be read.
  LossFactors(const std::vector<LossFactor>& factors, int64_t examples, Dtype dtype);

  size_t count() const { return all_.size(); }
  const std::string& input(size_t i) const { return all_[i].input; }
  const void* values(size_t i) const { return all_[i].values.data(); }  // for each example the same
  double now(size_t i) const { return all_[i].now; }
  // For a batch of so many examples. Below 0 they count as 0.
  void set(const StepProgress& now, int64_t examples);
  // By option_of_factor(): numbers and schedules that stand for the job's from the next step on; what `given` lacks is as in the job again.
  // Error(model), and nothing has changed.
  void change(const Json& given);

 private:
  struct Each {
    std::string input;
    LossFactor own;  // as the job has it
    Schedule schedule;
    double now;
    std::vector<std::byte> values;
  };
  std::vector<Each> all_;
  Dtype dtype_ = Dtype::f32;
};

}  // namespace perigee
