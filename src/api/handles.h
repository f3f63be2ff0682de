// The opaque types of perigee.h.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "src/api/handle.h"
#include "src/data/source.h"
#include "src/eager/random.h"
#include "src/train/checkpoint.h"
#include "src/train/inference.h"
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

struct perigee_model {
  std::shared_ptr<const perigee::ContextState> context;
  mutable perigee::Message message;
  std::shared_ptr<perigee::Training> training;  // of a model in training
  perigee::LoadedModel loaded;                  // of one from a file
  std::unique_ptr<perigee::ThreadTeam> team;
  perigee::TurnMutex own_turns;
  std::unique_ptr<perigee::Inference> inference;

  perigee::Model& model() const { return training ? training->trainer->model() : *loaded.model; }
  perigee::TurnMutex& turns() { return training ? training->mutex : own_turns; }
};
