#include "src/train/trainer.h"

#include "src/io/file.h"
#include "src/model/evaluator.h"
#include "src/train/device/device_team.h"
#include "src/train/trainer_worker.h"

namespace perigee {

std::string SourceOpener::locate(const std::string& path, const std::string&, const std::string& folder) { return path_in(folder, path); }

Json Position::to_json() const {
  Json json = Json::object();
  json.set("epoch", static_cast<int64_t>(epoch));
  json.set("position", position);
  json.set("step", step);
  json.set("examples", examples);
  return json;
}

Position Position::from_json(const Config& config) {
  constexpr int64_t kMost = int64_t{1} << 53;
  return {.epoch = static_cast<uint64_t>(config.integer_in("epoch", 0, kMost)),
          .position = config.integer_in("position", 0, kMost),
          .step = config.integer_in("step", 0, kMost),
          .examples = config.integer_in("examples", 0, kMost)};
}

bool Trainer::finished() const {
  if (max_steps_ > 0 && position_.step >= max_steps_) return true;
  return planned_examples_ > 0 && position_.examples >= planned_examples_;
}

void Trainer::restore(const Position& position, const Json& tuning, int64_t sub_batch) {
  position_ = position;
  loader_->seek(position.epoch, position.position);
  if (!tuning.is_null()) tuning_.merge(tuning);
  if (sub_batch > 0 && !device_) sub_batch_ = sub_batch;
  device_ ? device_->settle_anew() : make_plans();
}

void Trainer::freeze(const std::vector<bool>& frozen) {
  for (size_t i = 0; i < frozen.size(); ++i)
    if (frozen[i]) model_->params().set_trainable(static_cast<int>(i), false);
  make_optimizer();
  make_plans();
}

void Trainer::set_learning_rate(const Json& schedule) { optimizer_->set_learning_rate(schedule, job_.where() + ": optimizer: lr"); }

bool Trainer::has_part(const std::string& part) const {
  const Json* data = job_.json().find("data");
  const Json* source = data ? data->find(part) : nullptr;
  return source && !source->is_null();
}

Evaluator* Trainer::evaluator(const std::string& part) {
  if (!has_part(part)) return nullptr;
  auto& evaluator = evaluators_[part];
  if (!evaluator) {
    const Config data = Config(job_.json(), job_.where()).object("data");
    // What the transforms of the training part were fitted to holds for the others.
    const Json description = with_fitted(*data.raw(part), train_->traits().fitted);
    SourcePtr source = part == "train" ? train_ : open_part(part, data.element(description, part));
    evaluator = std::make_unique<Evaluator>(*model_, team_, std::move(source), job_.json().find("metrics"), job_.where(),
                                            device_ ? device_->models() : std::vector<DeviceModel*>{});
  }
  return evaluator.get();
}

Inference& Trainer::inference() {
  if (!inference_)
    inference_ =
        std::make_unique<Inference>(*model_, team_, false, kEvaluationBatch, device_ ? device_->models() : std::vector<DeviceModel*>{});
  return *inference_;
}

Json Trainer::evaluate(const std::string& part, const std::atomic<bool>* stop) {
  Evaluator* found = evaluator(part);
  const PhaseScope scope(times_, TracePhase::evaluate, found ? found->source().size() : 0);
  return found ? found->run(stop) : Json();
}

size_t Trainer::memory_bytes() const {
  if (device_) return device_->bytes();
  size_t sum = model_->params().block_bytes();
  for (const Storage& slot : slots_) sum += slot.bytes();
  for (const auto& worker : workers_) sum += worker->gradient.bytes() + worker->sums.bytes() + worker->memory->bytes();
  return sum;
}

bool Trainer::run(const std::atomic<bool>& stop) {
  for (Hook* hook : hooks_) hook->on_start(*this);
  if (device_ && !exchange_) return run_ahead(stop);
  while (!finished()) {
    if (stop) return false;
    const StepReport report = step(&stop);
    if (report.step == 0) return false;
    for (Hook* hook : hooks_) hook->on_step(*this, report);
    if (report.epoch_ends)
      for (Hook* hook : hooks_) hook->on_epoch(*this, report.epoch);
  }
  for (Hook* hook : hooks_) hook->on_end(*this);
  return true;
}

}  // namespace perigee
