// Steps on the GPUs of this process (device_team.h). A step is queued before the figures of the one before are looked at, so that a GPU
// never waits for the host; parameters and slots come home when they are asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/train/device/device_average.h"
#include "src/train/device/device_room.h"
#include "src/train/device/device_team.h"
#include "src/train/step_engine.h"

namespace perigee {

class DeviceEngine final : public StepEngine {
 public:
  explicit DeviceEngine(TrainingSetup& training) : t_(training) {}

  void build() override;
  int measure(Loader& loader) override;
  void retune(int64_t sub_batch) override;
  void cut() override;

  size_t depth() const override { return DeviceStep::kInFlight; }
  void queue(const StepTask& task) override;
  StepOutcome take(StepFigures* figures) override;
  void drop_queued() override;
  std::string find_non_finite() override;

  GradientReport sum_gradient(const Batch& batch, const StepInfo& info, const GradientTarget& target,
                              const std::atomic<bool>* cancel) override;
  double update(const std::byte* gradient_sum) override {
    team_->update(gradient_sum);
    return team_->gradient_norm();
  }
  void commit_states() override { team_->commit_states(); }
  bool adds_up() const override { return true; }
  GradientReport add_gradient(const Batch& batch, const StepInfo& info, bool first, bool last, const std::atomic<bool>* cancel) override;
  bool averages() const override { return true; }
  void add_to_average(double share) override { average_->add(share, team_->stopped()); }

  int64_t sub_batch() const override { return t_.at_once; }
  int64_t most_at_once() const override { return t_.at_once; }
  PlanSet& plans() override { return *plans_; }
  size_t bytes() const override { return team_->bytes(); }
  DeviceMemory planned_memory(int64_t gpus) const override;

  void fetch(Numbers numbers) const override;
  void host_changed(Numbers numbers) override;
  void fetch_loss_scale() const override;
  void loss_scale_changed() override;
  CarriedRows* carried() const override;
  bool holds_examples() const override { return team_->resident(); }
  std::vector<DeviceModel*> device_models() const override { return team_->models(); }
  DeviceModel* device_model() const override { return gpus_->size() == 1 ? &team_->model() : nullptr; }
  std::byte* device_gradient() const override { return gpus_->size() == 1 ? team_->gradient() : nullptr; }
  int64_t share_of(int64_t batch) const override { return perigee::share_of(*gpus_, batch).examples; }
  DeviceMemory device_memory() const override;
  std::vector<DeviceTaken> device_taken() const override { return team_->taken(); }

 private:
  void open_gpus();
  void send_rows();
  void refuse_lazy_rows() const;
  void make_team();
  DeviceReport compute(const Batch& batch, const StepInfo& info, const std::atomic<bool>* cancel, bool bring_home);
  void exchange_step(const StepTask& task);
  GradientReport sum_buckets(const Batch& batch, const StepInfo& info, const GradientTarget& target, const std::atomic<bool>* cancel);
  template <class Act>
  auto with_room(int64_t examples, Act act) {
    try {
      return act();
    } catch (const Error& error) {
      throw no_room(t_, gpus_.get(), error, examples);
    }
  }

  TrainingSetup& t_;
  std::unique_ptr<GpuGroup> gpus_;
  std::unique_ptr<PlanSet> plans_;
  std::unique_ptr<DeviceTeam> team_;
  std::unique_ptr<DeviceAverage> average_;  // null where the job has none
  std::vector<std::byte> gradient_;         // the host's copy
  std::unique_ptr<CarriedRows> carried_;    // the host's copy; null: rows carry nothing
  mutable bool rows_here_ = false;          // it may be newer than the device's; else that is
  std::optional<DeviceReport> exchanged_;   // figures of a step with an exchange, which is complete when it was queued
};

}  // namespace perigee
