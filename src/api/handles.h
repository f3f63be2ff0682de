// The opaque types of perigee.h.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/api/handle.h"
#include "src/data/source.h"
#include "src/eager/random.h"
#include "src/model/device/device_choice.h"
#include "src/model/inference.h"
#include "src/model/prediction.h"
#include "src/model/steps/step_model.h"
#include "src/run/checkpoint_hook.h"
#include "src/train/trainer.h"

namespace perigee {

using HostSources = std::map<std::string, SourcePtr>;

// A trainer as its handle and the handles of its model share it.
struct Training {
  std::shared_ptr<const ContextState> context;
  HostSources sources;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<CheckpointHook> checkpoints;  // null: none are written
  TurnMutex mutex;                              // of all that is here
};

// The context's device, if it names one, instead of the job's.
inline void use_device(const ContextState& context, Job* job) {
  if (!context.device.empty()) job->set("device", context.device);
}

}  // namespace perigee

struct perigee_context {
  std::shared_ptr<const perigee::ContextState> state;
  mutable perigee::Message message;
  std::mutex random_mutex;
  perigee::RandomStream random;
};

struct perigee_job {
  std::shared_ptr<const perigee::ContextState> context;
  mutable perigee::Message message;
  std::mutex mutex;
  std::optional<perigee::Job> job;
  perigee::HostSources sources;
};

struct perigee_source {
  perigee::SourcePtr source;
};

struct perigee_prediction {
  std::shared_ptr<const perigee::ContextState> context;
  mutable perigee::Message message;
  std::shared_ptr<const perigee::Predictions> results;  // shared with readers of its columns
  std::vector<std::string> warnings;
};

struct perigee_model {
  std::shared_ptr<const perigee::ContextState> context;
  mutable perigee::Message message;
  std::shared_ptr<perigee::Training> training;  // of a model in training
  perigee::LoadedModel loaded;                  // of one from a file
  std::unique_ptr<perigee::ThreadTeam> team;
  perigee::TurnMutex own_turns;
  std::unique_ptr<perigee::ModelSite> site;  // of one from a file, as is what follows
  std::unique_ptr<perigee::Inference> inference;
  bool told_raw = false;                                // that raw numbers are not prepared
  std::unique_ptr<perigee::RecordPredictor> predictor;  // with the options that were asked for last
  perigee::PredictionOptions predictor_options;
  std::shared_ptr<perigee::StepModel> step;  // what sessions share; null until there was one

  // The model's structure; in training its numbers may be older than those on its device.
  const perigee::Model& shape() const { return training ? training->trainer->shape() : *loaded.model; }
  // The model with its numbers, for the thread that has the turn.
  const perigee::Model& model() const { return training ? std::as_const(*training->trainer).model() : *loaded.model; }
  const perigee::Json& job() const { return training ? training->trainer->job().json() : loaded.job; }
  // Where one from a file computes; opened on first use.
  const perigee::ModelSite& opened_site() {
    if (!site) {
      team = std::make_unique<perigee::ThreadTeam>(std::max(1, context->threads));
      site = std::make_unique<perigee::ModelSite>(*loaded.model, loaded.job, context->device.empty() ? "cpu" : context->device,
                                                  "the context's device", std::nullopt);
    }
    return *site;
  }
  // One in training is used with the average of its weights, if it has one.
  std::unique_ptr<perigee::Trainer::InUse> in_use() {
    return training ? std::make_unique<perigee::Trainer::InUse>(*training->trainer) : nullptr;
  }
  perigee::TurnMutex& turns() { return training ? training->mutex : own_turns; }
};
