// The numbers that a replica keeps beside its trainer's. Internal to replica_trainer*.cpp.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cluster/replica/replica_trainer.h"
#include "src/model/device/device_model.h"
#include "src/model/steps/carried_rows.h"

namespace perigee {

// The numbers of a trainer. On a GPU with its codec there too, parameters and slots stay there until they are requested.
struct ReplicaTrainer::Values {
  std::vector<std::byte> parameters, states;
  std::vector<std::vector<std::byte>> slots, carried;
  Position position;

  // `there`: where they stay; null: here. Error(resources) when there is no room.
  Values(Trainer& trainer, DeviceModel* there) : slots(trainer.optimizer_slots()), there_(there) {
    bytes_ = trainer.shape().params().block_bytes();
    states.resize(trainer.shape().params().state_bytes().size());
    for_each_carried(trainer, [&](size_t, std::span<std::byte> rows) { carried.emplace_back(rows.size()); });
    if (!there) make_room();
    else block_ = there->gpu().allocate(bytes_, "the last result");
    for (size_t i = 0; there && i < slots.size(); ++i) slots_there_.push_back(there->gpu().allocate(bytes_, "the last result"));
  }
  void copy_from(Trainer& trainer) {
    const Trainer& from = trainer;
    std::ranges::copy(from.states(), states.begin());
    position = trainer.position();
    for_each_carried(trainer, [&](size_t i, std::span<std::byte> rows) { std::ranges::copy(rows, carried[i].begin()); });
    if (there_) {
      Gpu& gpu = there_->gpu();
      gpu.select();
      there_->to_device();
      gpu.copy(block_.data(), there_->block(), bytes_);
      for (size_t i = 0; i < slots.size(); ++i) gpu.copy(slots_there_[i].data(), there_->slot(i), bytes_);
      away_ = true;
      return;
    }
    std::copy_n(from.model().params().block(), bytes_, parameters.begin());
    for (size_t i = 0; i < slots.size(); ++i) std::ranges::copy(from.optimizer_slot(i), slots[i].begin());
  }
  void copy_to(Trainer& trainer, bool with_slots) const {
    std::ranges::copy(states, trainer.states().begin());
    trainer.set_position(position);
    for_each_carried(trainer, [&](size_t i, std::span<std::byte> rows) { std::ranges::copy(carried[i], rows.begin()); });
    if (away_) {
      Gpu& gpu = there_->gpu();
      gpu.select();
      gpu.copy(there_->block(), block_.data(), bytes_);
      there_->device_changed_parameters();
      for (size_t i = 0; with_slots && i < slots.size(); ++i) gpu.copy(there_->slot(i), slots_there_[i].data(), bytes_);
      if (with_slots) there_->device_changed_slots();
      return;
    }
    std::ranges::copy(parameters, trainer.model().params().block());
    for (size_t i = 0; with_slots && i < slots.size(); ++i) std::ranges::copy(slots[i], trainer.optimizer_slot(i).begin());
  }
  void swap_with(Trainer& trainer) {
    download();
    Params& params = trainer.model().params();
    std::swap_ranges(parameters.begin(), parameters.end(), params.block());
    std::swap_ranges(states.begin(), states.end(), params.state_bytes().begin());
    for (size_t i = 0; i < slots.size(); ++i) std::swap_ranges(slots[i].begin(), slots[i].end(), trainer.optimizer_slot(i).begin());
    for_each_carried(trainer, [&](size_t i, std::span<std::byte> rows) { std::ranges::swap_ranges(carried[i], rows); });
    const Position mine = position;
    position = trainer.position();
    trainer.set_position(mine);
  }
  // To be read and changed here, until they are asked for there.
  void download() {
    if (!away_) return;
    make_room();
    there_->gpu().select();
    there_->gpu().download(parameters.data(), block_.data(), bytes_);
    for (size_t i = 0; i < slots.size(); ++i) there_->gpu().download(slots[i].data(), slots_there_[i].data(), bytes_);
    away_ = false;
  }
  const std::byte* device_parameters() {
    if (away_) return block_.data();
    there_->gpu().select();
    there_->gpu().upload(block_.data(), parameters.data(), bytes_);
    for (size_t i = 0; i < slots.size(); ++i) there_->gpu().upload(slots_there_[i].data(), slots[i].data(), bytes_);
    away_ = true;
    return block_.data();
  }

 private:
  template <class Use>
  static void for_each_carried(const Trainer& trainer, Use use) {
    if (const CarriedRows* rows = trainer.carried())
      for (size_t i = 0; i < rows->specs().size(); ++i) use(i, rows->now(i));
  }
  void make_room() {
    parameters.resize(bytes_);
    for (std::vector<std::byte>& slot : slots) slot.resize(bytes_);
  }

  DeviceModel* there_;
  size_t bytes_ = 0;
  bool away_ = false;  // on the device; what is here is older
  GpuMemory block_;
  std::vector<GpuMemory> slots_there_;
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
