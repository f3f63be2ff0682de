// perigee.h: training.
#include "src/api/handles.h"
#include "src/data/array_source.h"
#include "src/data/sources/host.h"
#include "src/model/device/device_choice.h"

using namespace perigee;

struct perigee_trainer final : public Hook {
  std::shared_ptr<const ContextState> context;
  mutable Message message;
  std::shared_ptr<Training> training;
  std::atomic<bool> stop = false;      // asked for from outside
  std::atomic<bool> run_ends = false;  // what Trainer::run looks at
  std::atomic<bool> running = false;
  perigee_run_options run = {};
  int64_t steps = 0;  // of this run

  Trainer& trainer() const { return *training->trainer; }
  void on_step(Trainer& trainer, const StepReport& report) override;
};

namespace {

perigee_report to_report(const Trainer& trainer, const StepReport& step) {
  perigee_report report{};
  report.step = step.step;
  report.epoch = static_cast<int64_t>(step.epoch);
  report.examples = step.examples;
  report.total = trainer.position().examples;
  if (trainer.planned_examples() > 0)
    report.progress = std::min(1.0, static_cast<double>(report.total) / static_cast<double>(trainer.planned_examples()));
  report.loss = step.loss;
  report.accuracy = step.accuracy;
  report.learning_rate = step.learning_rate;
  report.gradient_norm = step.gradient_norm;
  report.epoch_ends = step.epoch_ends;
  report.finished = trainer.finished();
  return report;
}

int thread_count(const ContextState& context, const perigee_trainer_options& options) {
  return options.threads > 0 ? options.threads : context.threads;
}

// The caller's rows as a batch, without copying them.
Batch borrow_batch(const Trainer& trainer, const void* const* fields, int64_t examples) {
  Batch batch;
  batch.epoch = trainer.position().epoch;
  batch.position = trainer.position().position;
  batch.size = examples;
  for (int64_t i = 0; i < examples; ++i) batch.ids.push_back(batch.position + i);
  const auto& declared = trainer.train_source().fields();
  for (size_t i = 0; i < declared.size(); ++i) {
    std::vector<int64_t> dims = declared[i].shape.vector();
    dims.insert(dims.begin(), examples);
    const Shape shape(dims);
    const size_t bytes = static_cast<size_t>(shape.elements()) * dtype_bytes(declared[i].dtype);
    // Inputs are only read; a Tensor has no form for that.
    auto* data = static_cast<std::byte*>(const_cast<void*>(fields[i]));
    batch.fields.push_back(Tensor(std::make_shared<Storage>(Storage::borrow(data, bytes)), 0, declared[i].dtype, shape));
  }
  return batch;
}

void check_fed(const Trainer& trainer, const void* const* fields, int32_t field_count, int64_t examples) {
  constexpr const char* kHere = "perigee_trainer_feed";
  if (trainer.carried())
    misuse(kHere, "a network that carries state from batch to batch trains on the streams of its job", "a batch", "perigee_trainer_step");
  const auto& declared = trainer.train_source().fields();
  if (field_count != static_cast<int32_t>(declared.size()))
    misuse(kHere, "the training source has another number of fields", std::to_string(field_count), std::to_string(declared.size()));
  require(fields != nullptr, kHere, "fields must not be null");
  if (examples < 1 || examples > int64_t{1} << 24)
    misuse(kHere, "the number of examples is out of range", std::to_string(examples), "1 to 2^24");
  for (size_t i = 0; i < declared.size(); ++i) {
    require(fields[i] != nullptr, kHere, "a field's data must not be null");
    if (declared[i].classes > 0)
      check_labels({.field = declared[i], .stored = declared[i].dtype, .data = static_cast<const std::byte*>(fields[i])}, examples,
                   std::string(kHere) + ": field '" + declared[i].name + "'");
  }
}

}  // namespace

// Between two steps: the callback, then a turn for every thread that waits for one. Called with the lock held.
void perigee_trainer::on_step(Trainer& trainer, const StepReport& step) {
  ++steps;
  const perigee_report report = to_report(trainer, step);
  const bool told = run.progress && (steps % std::max<int64_t>(1, run.every_steps) == 0 || report.epoch_ends || report.finished);
  training->mutex.unlock();
  if (told) {
    perigee_report sized = report;
    sized.size = sizeof sized;
    if (run.progress(run.user, &sized) != 0) stop = true;
  }
  training->mutex.let_others_in();
  training->mutex.lock();
  run_ends = stop || (run.max_steps > 0 && steps >= run.max_steps);
}

extern "C" {

perigee_status perigee_trainer_create(perigee_job* job, const perigee_trainer_options* options, perigee_trainer** out) noexcept {
  if (out) *out = nullptr;
  if (!job) return PERIGEE_USAGE;
  return guard(*job->context, job->message, [&] {
    require(out != nullptr, "perigee_trainer_create", "out must not be null");
    const auto given = read_struct(options, "perigee_trainer_create");
    auto training = std::make_shared<Training>();
    training->context = job->context;
    std::optional<Job> description;
    {
      const std::lock_guard lock(job->mutex);
      training->sources = job->sources;
      description = job->job;
    }
    const HostScope scope(training->sources);
    TrainerOptions trainer_options{.threads = thread_count(*job->context, given)};
    use_device(*job->context, &*description);
    trainer_options.use(choose_device(description->json(), description->where() + ": device"));
    training->trainer = std::make_unique<Trainer>(*description, trainer_options);
    auto handle = std::make_unique<perigee_trainer>();
    handle->context = job->context;
    handle->training = std::move(training);
    Trainer& trainer = handle->trainer();
    if (given.checkpoints) {
      const Json nothing = Json::object();
      const Json* schedule = trainer.job().json().find("checkpoint");
      const Config config(schedule && schedule->is_object() ? *schedule : nothing, trainer.job().where() + ": checkpoint");
      handle->training->checkpoints = std::make_unique<CheckpointHook>(config, given.checkpoints);
      trainer.add_hook(handle->training->checkpoints.get());
    }
    trainer.add_hook(handle.get());  // last: it lets others in
    *out = handle.release();
  });
}

void perigee_trainer_free(perigee_trainer* trainer) noexcept { const std::unique_ptr<perigee_trainer> owned(trainer); }

const char* perigee_trainer_message(const perigee_trainer* trainer) noexcept { return trainer ? trainer->message.get() : ""; }

perigee_status perigee_trainer_step(perigee_trainer* trainer, perigee_report* report) noexcept {
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&] {
    const std::lock_guard lock(trainer->training->mutex);
    const StepReport step = trainer->trainer().step();
    write_struct(to_report(trainer->trainer(), step), report, "perigee_trainer_step");
  });
}

perigee_status perigee_trainer_feed(perigee_trainer* trainer, const void* const* fields, int32_t field_count, int64_t examples,
                                    perigee_report* report) noexcept {
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&] {
    const std::lock_guard lock(trainer->training->mutex);
    check_fed(trainer->trainer(), fields, field_count, examples);
    const StepReport step = trainer->trainer().step(borrow_batch(trainer->trainer(), fields, examples));
    write_struct(to_report(trainer->trainer(), step), report, "perigee_trainer_feed");
  });
}

perigee_status perigee_trainer_run(perigee_trainer* trainer, const perigee_run_options* options) noexcept {
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&]() -> perigee_status {
    const auto given = read_struct(options, "perigee_trainer_run");
    if (given.max_steps < 0 || given.every_steps < 0) misuse("perigee_trainer_run", "max_steps and every_steps must not be negative");
    if (trainer->running.exchange(true)) misuse("perigee_trainer_run", "this trainer is already running");
    const struct Running {
      std::atomic<bool>& flag;
      ~Running() { flag = false; }
    } running{trainer->running};
    const std::lock_guard lock(trainer->training->mutex);
    trainer->run = given;
    trainer->steps = 0;
    trainer->run_ends = trainer->stop.load();
    const bool finished = trainer->trainer().run(trainer->run_ends);
    trainer->stop = false;
    if (trainer->training->checkpoints) trainer->training->checkpoints->settle();
    return finished ? PERIGEE_OK : PERIGEE_STOPPED;
  });
}

void perigee_trainer_stop(perigee_trainer* trainer) noexcept {
  if (!trainer) return;
  trainer->stop = true;
}

int perigee_trainer_finished(perigee_trainer* trainer) noexcept {
  if (!trainer) return 1;
  const std::lock_guard lock(trainer->training->mutex);
  return trainer->trainer().finished();
}

perigee_status perigee_trainer_evaluate(perigee_trainer* trainer, const char* part, double* loss, double* accuracy, char** json) noexcept {
  if (json) *json = nullptr;
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&] {
    require(part != nullptr, "perigee_trainer_evaluate", "part must not be null");
    const std::lock_guard lock(trainer->training->mutex);
    if (!trainer->trainer().has_part(part)) misuse("perigee_trainer_evaluate", "the job's data have no part '" + std::string(part) + "'");
    const HostScope scope(trainer->training->sources);
    const Json result = trainer->trainer().evaluate(part);
    const auto figure = [&](const char* name, double none) {
      const Json* value = result.find(name);
      return value && value->is_number() ? value->as_number() : none;
    };
    if (loss) *loss = figure("loss", -1);
    if (accuracy) *accuracy = figure("accuracy", -1);
    if (json) *json = copy_text(result.dump());
  });
}

perigee_status perigee_trainer_model(perigee_trainer* trainer, perigee_model** out) noexcept {
  if (out) *out = nullptr;
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&] {
    require(out != nullptr, "perigee_trainer_model", "out must not be null");
    auto model = std::make_unique<perigee_model>();
    model->context = trainer->context;
    model->training = trainer->training;
    *out = model.release();
  });
}

perigee_status perigee_trainer_save_checkpoint(perigee_trainer* trainer, const char* path) noexcept {
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&] {
    require(path != nullptr, "perigee_trainer_save_checkpoint", "path must not be null");
    const std::lock_guard lock(trainer->training->mutex);
    save_checkpoint(trainer->trainer(), path);
  });
}

perigee_status perigee_trainer_load_checkpoint(perigee_trainer* trainer, const char* path) noexcept {
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&] {
    require(path != nullptr, "perigee_trainer_load_checkpoint", "path must not be null");
    const std::lock_guard lock(trainer->training->mutex);
    load_checkpoint(trainer->trainer(), path);
  });
}

perigee_status perigee_trainer_resume(perigee_trainer* trainer, int32_t* resumed) noexcept {
  if (resumed) *resumed = 0;
  if (!trainer) return PERIGEE_USAGE;
  return guard(*trainer->context, trainer->message, [&] {
    const std::lock_guard lock(trainer->training->mutex);
    if (!trainer->training->checkpoints) misuse("perigee_trainer_resume", "the trainer was made without a folder for checkpoints");
    const std::string file = trainer->training->checkpoints->folder().resume(trainer->trainer());
    if (resumed) *resumed = !file.empty();
  });
}
}
