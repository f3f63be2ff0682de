// The numbers that a replica keeps beside its trainer's. Internal to replica_trainer*.cpp.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cluster/uv/replica_trainer.h"

namespace perigee {

// The numbers of a trainer.
struct ReplicaTrainer::Values {
  std::vector<std::byte> parameters, states;
  std::vector<std::vector<std::byte>> slots;
  Position position;

  explicit Values(Trainer& trainer) {
    parameters.resize(trainer.model().params().block_bytes());
    states.resize(trainer.model().params().state_bytes().size());
    slots.assign(trainer.optimizer_slots(), std::vector<std::byte>(parameters.size()));
  }
  void copy_from(Trainer& trainer) {
    const Params& params = trainer.model().params();
    std::copy_n(params.block(), parameters.size(), parameters.begin());
    std::copy_n(params.state_bytes().begin(), states.size(), states.begin());
    for (size_t i = 0; i < slots.size(); ++i) std::copy_n(trainer.optimizer_slot(i).begin(), slots[i].size(), slots[i].begin());
    position = trainer.position();
  }
  void copy_to(Trainer& trainer, bool with_slots) const {
    Params& params = trainer.model().params();
    std::copy(parameters.begin(), parameters.end(), params.block());
    std::copy(states.begin(), states.end(), params.state_bytes().begin());
    for (size_t i = 0; with_slots && i < slots.size(); ++i) std::copy(slots[i].begin(), slots[i].end(), trainer.optimizer_slot(i).begin());
    trainer.set_position(position);
  }
  void swap_with(Trainer& trainer) {
    Params& params = trainer.model().params();
    std::swap_ranges(parameters.begin(), parameters.end(), params.block());
    std::swap_ranges(states.begin(), states.end(), params.state_bytes().begin());
    for (size_t i = 0; i < slots.size(); ++i) std::swap_ranges(slots[i].begin(), slots[i].end(), trainer.optimizer_slot(i).begin());
    const Position mine = position;
    position = trainer.position();
    trainer.set_position(mine);
  }
};

// While it lives, the trainer holds the last result.
class ReplicaTrainer::AtResult {
 public:
  explicit AtResult(ReplicaTrainer& replica) : replica_(replica) {
    if (replica_.local_work_) replica_.result_->swap_with(replica_.trainer_);
  }
  ~AtResult() {
    if (replica_.local_work_) replica_.result_->swap_with(replica_.trainer_);
  }
  AtResult(const AtResult&) = delete;
  AtResult& operator=(const AtResult&) = delete;

 private:
  ReplicaTrainer& replica_;
};

}  // namespace perigee
