// A recorded function as plans. Where arguments share a batch, in their first dimension, its rows are shared among threads as in training:
// each runs its rows, sums over rows meet, and what needs the whole batch (an update by gradients) runs after that.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/eager/recorder.h"
#include "src/graph/choosing.h"
#include "src/graph/plan.h"

namespace perigee {

class CompiledFunction {
 public:
  // `outputs`: values of the recorder. `threads` 0: as many as the machine has cores. `donated`: arguments that the caller does not use
  // afterwards; a result of the same type is put into an argument's memory where nothing reads it any more by then.
  CompiledFunction(const Recorder& recorder, std::span<const int> outputs, int threads = 0, std::span<const int> donated = {});

  // Arguments in the recorder's order and of the types that it saw; results are new. Error(model) when they differ.
  std::vector<Array> run(std::span<const Array> arguments);

  int parts() const { return static_cast<int>(rows_stage_.runs.size()); }  // how many threads share a batch; 0: it is not shared
  size_t results() const { return results_; }
  std::string report() const;  // the steps of the plans

 private:
  enum class From : uint8_t { argument, capture, slot };
  struct Source {
    From from;
    size_t index;
    bool rows;  // of a batch: each part has its own rows
  };
  // A plan, one run of it for each part, and what its leaves and outputs are bound to.
  struct Stage {
    std::shared_ptr<const Plan> plan;
    std::vector<std::unique_ptr<Storage>> arenas;
    std::vector<std::unique_ptr<PlanRun>> runs;
    std::vector<Source> inputs, parameters;
    std::vector<size_t> outputs;  // slots
  };
  // Memory between the stages, and of the results: slot i is result i for the first `results_` of them.
  struct Slot {
    Type type;
    bool rows = false;           // parts write their rows
    bool sum = false;            // parts add up
    std::vector<Array> partial;  // of the parts but the first
    Array memory;                // where it is no result
  };

  void compile(const Graph& graph, int parts);
  void add_stage(Stage& stage, const Graph& graph, int parts);
  void bind(Stage& stage, size_t part, std::span<const Array> in, std::span<const Array> captured, std::span<const Array> slots);
  void choose_donors(std::span<const int> donated);
  bool may_take(size_t result, size_t argument) const;
  void check_choosing(std::span<const Array> in, std::span<const Array> captured) const;
  void run_rest(const StepInfo& step);
  void add_up(int part, std::span<const Array> slots);

  std::vector<Type> arguments_;
  std::vector<Array> captures_;
  std::vector<ChoosingInput> choosing_;  // arguments and captures that hold labels or indices
  size_t results_ = 0;
  bool shares_steps_ = true;
  std::vector<int> donors_;  // by result: the argument whose memory it takes; -1: new memory
  std::vector<Slot> slots_;
  Stage rows_stage_, rest_stage_;
  std::map<std::string, size_t> boundary_slots_;
  uint64_t calls_ = 0;
};

}  // namespace perigee
