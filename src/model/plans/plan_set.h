// Plans of a model by their shapes: compiled when they are first asked for, and a thread's memory that they run in.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/core/lru_map.h"
#include "src/graph/plan.h"
#include "src/model/model.h"
#include "src/model/plans/recompute.h"

namespace perigee {

// The shapes that a plan is compiled for, beside those of the network.
struct ShapeKey {
  int64_t batch = 1;
  int64_t steps = 0;                                                                                // of the timed fields; 0: all
  ShapeKey(int64_t examples, int64_t steps_of_each = 0) : batch(examples), steps(steps_of_each) {}  // NOLINT: mostly a batch size alone
  auto operator<=>(const ShapeKey&) const = default;
};

// So many plans are kept; the one that was used the longest ago makes room. Fields with lengths need one for each of up to sixteen lengths.
inline constexpr size_t kMostPlans = 64;

// Plans of one kind by shape.
class PlanSet {
 public:
  enum class Kind { training, inference, inference_with_loss };
  // `layers`: as Model::inference_graph() has them.
  PlanSet(const Model& model, Kind kind, Backend backend = Backend::cpu, const Tuning* tuning = nullptr,
          std::vector<std::string> layers = {});
  // For training plans, before the first: what the backward pass computes again, so that arenas fit into `room` bytes. Error(model) when
  // a pattern names no layer.
  void set_recompute(const RecomputeOptions& options, size_t room);
  // Before the first plan: rows go on from step to step.
  void set_carry(Carry carry) { carry_ = carry; }
  // Before the first plan: gradients of these outputs are added to what is there in every run (PlanOptions::kept).
  void keep(std::vector<std::string> outputs) { kept_ = std::move(outputs); }
  // The gradients, of those of training plans, that are zero but for rows which an input chooses.
  std::vector<RowGradient> row_gradients() const;
  // Compiles on first use; thread-safe. Threads that want the same plan at once compile it once, and others do not wait for them.
  std::shared_ptr<const Plan> plan(ShapeKey key) { return choice(key).plan; }
  RecomputeChoice choice(ShapeKey key);
  void drop(ShapeKey key);  // it is compiled again when it is asked for
  const Model& model() const { return model_; }
  const SliceAnalysis& slices() const { return slices_; }
  size_t room() const { return room_; }  // for an arena

 private:
  struct Entry {
    std::shared_future<RecomputeChoice> made;
    uint64_t number = 0;  // of the compilation
  };
  RecomputeChoice compile(ShapeKey key) const;
  Graph graph_of(ShapeKey key) const;

  const Model& model_;
  Kind kind_;
  Backend backend_;
  const Tuning* tuning_;
  std::vector<std::string> layers_;
  std::vector<std::string> kept_;
  SliceAnalysis slices_;
  RecomputeOptions::Mode recompute_ = RecomputeOptions::Mode::none;
  Carry carry_ = Carry::none;
  size_t room_ = SIZE_MAX;
  std::vector<std::string> scopes_;  // of the layers that may be computed again
  std::mutex mutex_;                 // held while plans are looked up, not while one is compiled
  LruMap<ShapeKey, Entry> plans_{kMostPlans};
  uint64_t compilations_ = 0;
};

// One thread's arena and bound plans. Not thread-safe.
class PlanMemory {
 public:
  // `gradient`: a block of the parameters' layout and type that gradients go to; null for inference.
  // `check`: compare every host kernel with ref.
  PlanMemory(PlanSet& plans, Params& params, std::byte* gradient, bool check = false);
  PlanRun& at(ShapeKey key);  // until the next call
  size_t bytes() const;

 private:
  PlanSet& plans_;
  Params& params_;
  std::byte* gradient_;
  bool check_;
  std::unique_ptr<Storage> arena_;
  LruMap<ShapeKey, std::unique_ptr<PlanRun>> runs_{kMostPlans};
};

}  // namespace perigee
