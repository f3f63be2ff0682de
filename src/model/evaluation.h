// Evaluations judge a trained network. An evaluation takes in batches, merges with another of its kind (threads, workers) and
// tells its result as JSON. One file in metrics/ defines one evaluation.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/tensor/tensor.h"

namespace perigee {

// The facts about the task that an evaluation needs.
struct EvaluationTask {
  int64_t classes = 0;                    // of the target; 0: not a class label
  std::vector<std::string> class_names;   // empty, or `classes` of them
  bool sequence = false;                  // the target is a class at each position of a sequence
  std::optional<int64_t> blank = {};      // of the loss ctc, whose targets are labels of a sequence: the class that stands for none
  std::string output = {};                // the name of the network's output that it is about, where there are several with a loss
  std::vector<EvaluationTask> more = {};  // of the others, which are judged by the default evaluations
};

// Examples of a sequence task: outputs [N, C, T] as probabilities, targets [N, L].
struct SequenceBatch {
  const Tensor& output;
  const Tensor& target;
  int64_t count = 0;                          // of them
  std::span<const double> weights = {};       // of each step of a target; empty: all count
  std::span<const int64_t> output_ends = {};  // how many steps of each output are there; empty: all
};

class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // `output` is [N, ...], f32 or f64, contiguous, with the loss's link applied (softmax and sigmoid: probabilities). `target` is
  // [N] class labels (i64, i32, u8 or whole floats), or has the output's shape. Only the first `count` rows are taken in
  // (-1: all). `weights`: how much each row counts, at least `count` of them; none: all count 1. A row of weight 0 is passed over, whatever is
  // in it. Error(data) when a label is out of range, Error(model) when shapes do not fit.
  virtual void add(const Tensor& output, const Tensor& target, int64_t count = -1, std::span<const double> weights = {}) = 0;
  // Refuses batches of such types that it cannot take, where that can be told before there are any: Error(model).
  virtual void check(const Type& output, const Type& target) { (void)output, (void)target; }
  // Takes in what `other`, made from the same description, has seen. The result is that of having seen both.
  virtual void merge(const Evaluation& other) = 0;
  // The figures: an object; numbers that are not defined (no examples, no positives) are null.
  virtual Json result() const = 0;
  // All that has been seen, so that it can be sent or stored; restore() replaces what this one has seen.
  virtual Json state() const = 0;
  virtual void restore(const Json& state) = 0;
  // Whether the steps of a sequence are rows of their own. A function of one's own gets whole examples where none has weights.
  virtual bool takes_steps() const { return true; }
  // Whether it goes by whole sequences, which come to add_sequences() alone. Error(model) from add() then.
  virtual bool takes_sequences() const { return false; }
  virtual void add_sequences(const SequenceBatch&) {}
};

struct EvaluationDef {
  const char* name = nullptr;  // "classification"
  const char* doc = nullptr;
  Schema schema = {};
  std::unique_ptr<Evaluation> (*make)(const Config& options, const EvaluationTask& task) = nullptr;
};

std::span<const EvaluationDef* const> all_evaluations();
// `description` is a name or {"type": name, options...}. Error(model) with the nearest known name.
std::unique_ptr<Evaluation> make_evaluation(const Json& description, const EvaluationTask& task, const std::string& where);
// The first evaluation that, without options, gives a figure of this name; empty: none does.
std::string evaluation_with(const std::string& figure, const EvaluationTask& task);
// The evaluations that a task gets when a job names none: "classification" "regression" or "transcription"; none for other
// sequences, where the loss says it all.
Json default_evaluations(const EvaluationTask& task);

}  // namespace perigee
