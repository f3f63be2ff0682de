// A whole pass over one data source in inference mode, summed up by evaluations.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "src/model/choice_check.h"
#include "src/model/evaluation.h"
#include "src/model/evaluation_details.h"
#include "src/model/inference.h"
#include "src/model/losses/step_weights.h"

namespace perigee {

// The sums over some examples: of the losses and by the job's evaluations.
class EvaluationSums {
 public:
  // `metrics`: a list of descriptions, or one; null: the task's default.
  EvaluationSums(const Json& metrics, const EvaluationTask& task, const std::string& where);
  // `weights`: by StepWeights, as many for each example as `positions` says; empty: all count 1.
  // `more`: the targets of further heads.
  void add(const Inference::Result& result, const Tensor& target, std::span<const double> weights = {}, int64_t positions = 1,
           std::span<const Tensor> more = {});
  // Error(model) for evaluations that cannot take such batches, in the form that add() gives them.
  void check(const Type& output, const Type& target, bool weighted, int64_t positions);
  void merge(const EvaluationSums& other);
  Json state() const;
  void restore(const Json& state);  // Error(data) when it is not of such sums
  // As Evaluator::run gives it. `data`: what the source calls itself.
  Json report(const std::string& data) const;

 private:
  void add_heads(const Inference::Result& result, std::span<const Tensor> targets, std::span<const double> weights);

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Evaluation>> evaluations_;
  EvaluationTask task_;
  double loss_ = 0, weight_ = 0;
  int64_t examples_ = 0;
  struct Head {  // one of several outputs; the first is the main one, whose evaluations are those above
    std::string name;
    double loss = 0;
    std::unique_ptr<Evaluation> evaluation;  // null: the loss says it all
  };
  std::vector<Head> heads_;  // none where one output has a loss
};

// The figures that such a report has as numbers, as runs show and watch them: "loss", "accuracy", "roc.auc".
std::vector<std::string> figures_of(const Json& metrics, const EvaluationTask& task, const std::string& where);

// The report of slices that were evaluated apart, by whom and in whatever order. Error(data) when a state is not of these metrics.
Json evaluation_report(const Json& metrics, const EvaluationTask& task, const std::string& data, std::span<const Json> states,
                       const std::string& where);

// Likewise EvaluationDetails::report() of states that have details, of a part of `examples`; null where none has.
Json merged_details(const EvaluationTask& task, int64_t examples, std::span<const Json> states);

// Examples that an Evaluator takes at once.
inline constexpr int64_t kEvaluationBatch = 256;

class Evaluator {
 public:
  // `metrics`: the job's list of evaluations; null or absent: the task's default. Model, team and `devices` must outlive this. `devices`: the
  // model on each of them, which then compute; none: the team does.
  Evaluator(Model& model, ThreadTeam& team, SourcePtr source, const Json* metrics, const std::string& where,
            std::span<DeviceModel* const> devices = {});

  // {"examples": n, "data": what the source calls itself, "loss": mean, <figures of the first evaluation>, "<name>": {figures of the others}};
  // of several outputs with a loss also "<output>": {"loss": ..., figures} for each; null when stopped.
  Json run(const std::atomic<bool>* stop = nullptr);
  // From the next pass on, details of it are kept too: they are in what state() gives, and details() gives those of the last run().
  void keep_details() { keeps_details_ = true; }
  Json details();  // EvaluationDetails::report(); null before the first whole pass
  // The evaluation's state after examples [begin, end) of the source (end -1: to its end); evaluation_report merges those of all slices;
  // null when stopped. `evaluated` goes up by the examples as they are done.
  Json state(int64_t begin, int64_t end, const std::atomic<bool>* stop = nullptr, std::atomic<int64_t>* evaluated = nullptr);

  const DataSource& source() const { return *source_; }
  const EvaluationTask& task() const { return task_; }
  bool in_order() const { return streams_ > 0; }  // rows carry on: state() takes the whole part alone

 private:
  std::unique_ptr<EvaluationDetails> empty_details() const;
  std::optional<EvaluationSums> pass(int64_t begin, int64_t end, const std::atomic<bool>* stop, std::atomic<int64_t>* evaluated);

  Model& model_;
  SourcePtr source_;
  Json metrics_;
  std::string where_;
  EvaluationTask task_;
  int64_t streams_ = 0;  // rows that carry on from batch to batch; 0: examples stand alone
  Inference inference_;
  Loader loader_;
  std::vector<int> fields_;  // of the model's inputs, then the targets
  std::optional<ChoiceCheck> choices_;
  std::optional<StepWeights> weights_;
  bool keeps_details_ = false;
  std::unique_ptr<EvaluationDetails> details_;  // of the last pass; null where it was not whole
  int target_ = 0;                              // place of the main target in fields_
};

}  // namespace perigee
