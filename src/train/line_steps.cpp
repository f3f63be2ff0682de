#include "src/train/line_steps.h"

#include <cmath>
#include <limits>

namespace perigee {
namespace {

struct Cancelled {};

void refuse_lines(const Job& job, const std::string& key, std::string what, std::string expected) {
  throw job.placed(Error(ErrorKind::model, {.where = job.where() + ": " + key, .what = std::move(what), .expected = std::move(expected)}));
}

bool is_given(const Job& job, const char* key) {
  const Json* found = job.json().find(key);
  return found && !found->is_null();
}

// As the update of other optimisers has it: scaled, then with the derivative of the penalties.
template <class T>
void regularize(T* gradient, const T* parameters, int64_t n, const UpdateParams& params) {
  const double scale = params.gradient_scale;
  for (int64_t i = 0; i < n; ++i) {
    const double p = static_cast<double>(parameters[i]), sign = p > 0 ? params.l1 : p < 0 ? -params.l1 : 0;
    gradient[i] = static_cast<T>(static_cast<double>(gradient[i]) * scale + params.l2 * p + sign);
  }
}

}  // namespace

std::unique_ptr<LineSteps> LineSteps::of(TrainingSetup& training, StepEngine& engine, bool alone) {
  if (!training.optimizer->minimizer()) return nullptr;
  const Job& job = training.job;
  if (training.options.backend == Backend::cuda) refuse_lines(job, "device", "computes no line searches on a GPU", "device = \"cpu\"");
  if (training.scale)
    refuse_lines(job, "precision", "\"fp16\" has a loss scale, which a line search would follow", "precision = \"float32\"");
  if (!alone)
    refuse_lines(job, "optimizer", "searches along lines, for steps of one loss on one batch", "no 'objectives', and accumulate = 1");
  for (const char* key : {"clip", "constraint", "lr_scale"})
    if (is_given(job, key))
      refuse_lines(job, key, "changes steps, which a line search chooses by the loss", "no '" + std::string(key) + "'");
  return std::make_unique<LineSteps>(training, engine);
}

LineSteps::LineSteps(TrainingSetup& training, StepEngine& engine)
    : t_(training),
      engine_(engine),
      minimizer_(*training.optimizer->minimizer(), training.model->params().windows(), training.model->params().block_elements(),
                 training.model->params().dtype()),
      fixed_(training.source->traits().fixed) {}

double LineSteps::evaluate(const StepTask& task, std::byte* gradient) {
  const GradientReport report = engine_.sum_gradient(task.batch, task.info, {.to = gradient, .add = {}}, task.cancel);
  if (report.cancelled) throw Cancelled();
  ++evaluations_;
  last_ = {.loss_sum = report.loss_sum, .correct = report.correct};
  if (!report.finite) return std::numeric_limits<double>::infinity();
  return value_of(report.loss_sum, task.weight, task.progress, t_.model->params().block(), gradient);
}

double LineSteps::value_of(double loss_sum, double weight, const StepProgress& progress, const std::byte* parameters, std::byte* gradient) {
  t_.optimizer->begin_step(progress, 1.0 / weight);
  const Params& params = t_.model->params();
  const auto& windows = params.windows();
  for (size_t i = 0; i < windows.size(); ++i) {
    if (!windows[i].trainable) continue;
    const size_t at = params.parameter_offset(static_cast<int>(i));
    const UpdateParams& how = t_.optimizer->window_params()[i];
    const int64_t n = windows[i].elements;
    if (params.dtype() == Dtype::f64)
      regularize(reinterpret_cast<double*>(gradient + at), reinterpret_cast<const double*>(parameters + at), n, how);
    else regularize(reinterpret_cast<float*>(gradient + at), reinterpret_cast<const float*>(parameters + at), n, how);
  }
  return loss_sum / weight + t_.optimizer->penalty(progress, parameters);
}

std::vector<std::byte*> LineSteps::slots() const {
  std::vector<std::byte*> slots;
  for (void* slot : t_.slot_pointers) slots.push_back(static_cast<std::byte*>(slot));
  return slots;
}

void LineSteps::step(const StepTask& task) {
  t_.optimizer->begin_step(task.progress, 1.0 / task.weight);
  outcome_ = StepOutcome::done;
  evaluations_ = 0;
  figures_ = last_;
  const std::vector<std::byte*> slots = this->slots();
  try {
    const auto value_at = [&](std::byte* gradient) {
      const double value = evaluate(task, gradient);
      if (minimizer_.wants_start()) figures_ = last_;
      return value;
    };
    const Minimizer::Result result = minimizer_.iterate(t_.model->params().block(), slots.data(), is_whole(task.batch.size), value_at);
    figures_.gradient_norm = result.gradient_norm;
    if (!std::isfinite(result.value)) outcome_ = StepOutcome::not_finite;
    else engine_.commit_states(), engine_.commit_carried();
  } catch (const Cancelled&) {
    outcome_ = StepOutcome::cancelled;
    minimizer_.lose_value();
  }
}

}  // namespace perigee
