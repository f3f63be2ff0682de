#include "src/train/vector_engine.h"

#include <algorithm>
#include <cmath>

namespace perigee {

VectorEngine::VectorEngine(TrainingSetup& training, const VectorSource& source)
    : t_(training),
      source_(source),
      rows_(*source.corpus().elements(), source.corpus().labels().size(), source.options()),
      inputs_{.parameter = 0, .rows = &rows_.inputs()},
      outputs_{.parameter = 1, .rows = &rows_.outputs()} {
  try {
    check_job();
  } catch (const Error& error) {
    throw t_.job.placed(error);
  }
  check_network();
  workers_.resize(static_cast<size_t>(t_.team.size()));
  for (auto& worker : workers_) worker = std::make_unique<VectorWorker>(rows_, source.options(), source.corpus().sequences());
}

// Whatever stands for a gradient, or changes it, has no place here.
void VectorEngine::check_job() const {
  const auto refuse = [&](const std::string& key, const std::string& got, const std::string& expected) {
    throw Error(ErrorKind::model, {.where = t_.job.where() + ": " + key,
                                   .what = "has no part in word vectors, whose steps have no gradient",
                                   .got = got,
                                   .expected = expected});
  };
  for (const char* key : {"regularization", "constraint", "clip", "objectives", "freeze", "lr_scale"})
    if (const Json* given = t_.job.json().find(key); given && !given->is_null() && *given != Json::array())
      refuse(key, given->dump(), std::string("no ") + key);
  if (t_.optimizer->type() != std::string_view("sgd") || !t_.slots.empty())
    refuse("optimizer", std::string("'") + t_.optimizer->type() + "'" + (t_.slots.empty() ? "" : " with momentum"), "plain sgd");
  if (t_.batch != t_.at_once) refuse("accumulate", std::to_string(t_.batch / t_.at_once), "1");
  if (t_.scale || t_.model->params().dtype() != Dtype::f32) refuse("precision", "another one", "float32");
  if (t_.options.backend == Backend::cuda) refuse("device", "a GPU", "cpu");
}

void VectorEngine::check_network() const {
  const auto& specs = t_.model->params().specs();
  const Table* const tables[] = {&inputs_, &outputs_};
  bool fits = specs.size() == 2;
  std::string got, expected;
  for (const ParameterSpec& spec : specs) got += (got.empty() ? "" : ", ") + spec.name + " " + spec.shape.text();
  for (size_t i = 0; i < 2; ++i) {
    const Shape wanted{tables[i]->rows->rows, tables[i]->rows->size};
    expected += (i == 0 ? "an embedding " : ", a dense layer without bias ") + wanted.text();
    fits = fits && specs[i].shape == wanted;
  }
  if (fits) return;
  throw t_.job.placed(Error(ErrorKind::model, {.where = t_.job.where() + ": network",
                                               .what = "is none of word vectors over this corpus",
                                               .got = got,
                                               .expected = expected,
                                               .hint = "`perigee vectors job` writes a job that fits its files"}));
}

float* VectorEngine::block_row(const Table& table, int64_t row) const {
  auto* const values = reinterpret_cast<float*>(t_.model->params().parameter(static_cast<int>(table.parameter)));
  return values + row * table.rows->size;
}

template <class Copy>
void VectorEngine::each_row(Copy copy) const {
  for (const Table* table : {&inputs_, &outputs_})
    for (int64_t row = 0; row < table->rows->rows; ++row) copy(block_row(*table, row), table->rows->row(row), table->rows->size);
}

void VectorEngine::fetch(Numbers which) const {
  if (which != Numbers::model || !block_behind_) return;
  each_row([](float* block, const float* row, int64_t size) { std::copy_n(row, size, block); });
  block_behind_ = false;
}

void VectorEngine::host_changed(Numbers which) {
  if (which != Numbers::model) return;
  rows_behind_ = true;
  block_behind_ = false;
}

void VectorEngine::queue(const StepTask& task) {
  if (task.exchange) refuse_gradient();
  if (rows_behind_) each_row([](const float* block, float* row, int64_t size) { std::copy_n(block, size, row); });
  rows_behind_ = false;
  t_.optimizer->begin_step(task.progress, 1);
  const auto rate = static_cast<float>(std::max(t_.optimizer->learning_rate(), 1e-12));
  const Batch& batch = task.batch;
  const PhaseScope scope(t_.times, TracePhase::compute, batch.size);
  VectorCourse course;
  course.works = batch.size;
  course.open = [&](VectorWorker& worker, int64_t work) { worker.open(batch.epoch, batch.ids[static_cast<size_t>(work)], rate); };
  course.look = [](VectorWorker&, int) {};
  run_course(t_.team, workers_, course, source_.options().deterministic && t_.team.size() > 1);
  block_behind_ = true;
  VectorWorker::Loss loss;
  for (const auto& worker : workers_) {
    const VectorWorker::Loss one = worker->take_loss();
    loss.sum += one.sum, loss.pairs += one.pairs;
  }
  if (loss.pairs > 0) last_loss_ = loss.mean();
  figures_ = {.loss_sum = last_loss_ * static_cast<double>(batch.size)};
  outcome_ = std::isfinite(last_loss_) ? StepOutcome::done : StepOutcome::not_finite;
  if (outcome_ == StepOutcome::not_finite) last_loss_ = 0;
}

StepOutcome VectorEngine::take(StepFigures* figures) {
  *figures = figures_;
  return outcome_;
}

void VectorEngine::refuse_gradient() const {
  throw Error(ErrorKind::model, {.where = t_.job.where() + ": averaging",
                                 .what = "word vectors have no gradient of a step that workers could add up",
                                 .expected = "a policy of parameters",
                                 .hint = "averaging = pg.averaging.periodic { every = 8 }"});
}

GradientReport VectorEngine::sum_gradient(const Batch&, const StepInfo&, const GradientTarget&, const std::atomic<bool>*) {
  refuse_gradient();
}

double VectorEngine::update(const std::byte*) { refuse_gradient(); }

PlanSet& VectorEngine::plans() {
  if (!plans_) plans_ = std::make_unique<PlanSet>(*t_.model, PlanSet::Kind::training, t_.options.backend, &t_.tuning);
  return *plans_;
}

size_t VectorEngine::bytes() const {
  return t_.model->params().block_bytes() + rows_.inputs().values.bytes() + rows_.outputs().values.bytes();
}

DeviceMemory VectorEngine::planned_memory(int64_t) const { return {}; }

}  // namespace perigee
