// A network that reads a sequence in pieces, each from where the piece before ended; and sessions with it, each of which is no more than its state.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "src/model/plans/plan_set.h"
#include "src/model/steps/carried_rows.h"

namespace perigee {

// A copy of a model, of which one step is computed at a time. Sessions of any threads may share it: they take turns.
class StepModel {
 public:
  // Steps are the last dimension of an input and of the main output: Error(usage) where they are not. Of several inputs the last one with as many
  // steps as the output is read step by step; the others are a memory, there from the beginning: an encoder's input, what says how long it is. Error(model) names a layer that needs
  // other steps than the one at hand. `rows`: sequences side by side. `unlinked`: outputs are scores, before the loss's link.
  explicit StepModel(const Model& model, int64_t rows = 1, bool unlinked = false);

  // The most that callers may ask for: sequences side by side, steps at once.
  static constexpr int64_t kMostRows = 65536, kMostSteps = int64_t{1} << 24;

  // The step model of sessions that are opened now: `last` while it has the model's numbers and as many rows, else a new one, which it becomes.
  static std::shared_ptr<StepModel> shared(std::shared_ptr<StepModel>& last, const Model& model, int64_t rows);

  // Whether the constructor takes the model, and it carries anything.
  static bool is_for(const Model& model);

  int64_t rows() const { return rows_; }
  const Type& input() const { return input_type_; }  // of one row and step; the last dimension is 1
  const Type& output() const { return output_type_; }
  const std::vector<NetworkInput>& memory() const { return memory_inputs_; }  // of one row
  const std::vector<CarriedSpec>& carried() const { return carried_->specs; }
  const std::shared_ptr<const CarriedLayout>& layout() const { return carried_; }  // which the rows of all sessions share
  int64_t most_steps() const { return most_steps_; }  // of a session: those that the model reads at once; 0: any number
  bool has_parameters_of(const Model& model) const;   // its numbers, as they are now

  // Error(usage) unless rows in this state, which may come from outside, can read so many more steps.
  void check_room(const CarriedRows& state, int64_t steps) const;
  // One step of every row: `x` [rows, ...], `kept` what keep() made of the memory. The result is valid until the next call. The caller sees to
  // turns.
  const View& step(CarriedRows& state, const void* x, std::span<const Storage> kept = {});
  // Computes what steps need of a memory: [rows, ...] of each of memory(), contiguous. As step(), the caller sees to turns.
  void keep(std::span<const void* const> memory, std::vector<Storage>* kept);

 private:
  friend class StepSession;
  StepModel(const Model& model, const BuiltNetwork& one, int64_t rows, bool unlinked);

 public:
  ~StepModel();

 private:
  std::shared_ptr<const CarriedLayout> carried_;
  int64_t most_steps_ = 0;
  Type input_type_, output_type_;
  std::unique_ptr<Model> model_;
  PlanSet plans_;
  PlanMemory memory_;
  int64_t rows_;
  PlanRun* run_ = nullptr;
  int input_ = -1, output_ = -1;
  // A model with a memory has two plans of its own.
  struct Bound;
  void cut(const std::vector<std::string>& layers);
  std::vector<NetworkInput> memory_inputs_;
  std::unique_ptr<Bound> once_, each_;
  std::vector<Type> kept_;
  std::mutex turns_;
  std::vector<std::byte> one_;  // a step's input
};

// One thread at a time.
class StepSession {
 public:
  explicit StepSession(std::shared_ptr<StepModel> model);

  // Reads `steps` more of each row: `x` is [rows, ..., steps], `y` [rows, ..., steps] of the output. Allocates nothing.
  // Error(usage), and nothing is read, where that would be more than model().most_steps().
  void step(const void* x, int64_t steps, void* y);
  void clear() { state_.clear(); }  // the next step is the first; the memory stays
  // Before the first step of a model with a memory: [rows, ...] of number `i` of model().memory(), contiguous. What belongs to all of them is computed
  // when each was given, and then the next step is the first.
  void remember(size_t i, const void* memory);
  Type memory_type(size_t i) const;
  const StepModel& model() const { return *model_; }
  CarriedRows& state() { return state_; }

 private:
  std::shared_ptr<StepModel> model_;
  CarriedRows state_;
  std::vector<Storage> given_, kept_;  // of the memory: what came, by input; what steps read
  std::vector<bool> there_;
};

}  // namespace perigee
