// More about an evaluation than its figures, for the page of a run: ROC curves and the calibration of a classifier, answers beside the truth
// of a regression, and the examples with the greatest loss. Bounded, and the same however the examples are cut into slices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/model/evaluation.h"
#include "src/model/inference.h"

namespace perigee {

class EvaluationDetails {
 public:
  static constexpr size_t kWorst = 16;     // examples
  static constexpr size_t kSample = 500;   // examples of a scatter plot
  static constexpr int64_t kColumns = 4;   // of a target
  static constexpr int64_t kClasses = 32;  // with more there are no curves

  // `link`: what made the outputs probabilities (Model::link). `input`: the field that shows an example. `examples`: of all slices together.
  EvaluationDetails(const EvaluationTask& task, const std::string& link, std::string input, int64_t examples);

  // Rows of the examples from number `first` on.
  void add(const Inference::Result& result, const Tensor& target, int64_t first);
  // Instead of add(): examples or steps that count differently, of which nothing is kept. All others would count each example once.
  void leave_out_weighted() { weighted_ = true; }
  // Reads the worst examples, so that they are in what follows. Once, after the last add().
  void show(const DataSource& source);
  Json state() const;
  // The page's section "evaluation": {"roc", "calibration", "scatter", "worst"}, each where there is one, or {"weighted": true}. Of slices:
  // their states together.
  Json report() const;
  void merge(const Json& state);  // Error(data) when it is no such state

 private:
  struct Sample {
    uint64_t draw = 0;  // the least ones are kept: a sample that does not depend on the slices
    std::vector<double> actual, predicted;
  };
  struct Bad {
    double loss = 0;
    int64_t index = 0;
    Json about;
  };

  void add_sample(Sample sample);
  void add_bad(Bad bad);
  Json answer(const Tensor& output, const Tensor& target, int64_t row) const;

  EvaluationTask task_;
  std::string input_;
  std::unique_ptr<Evaluation> roc_, calibration_;  // null: not of this task
  Json roc_description_;
  bool regression_ = false, weighted_ = false;
  std::vector<Sample> samples_;  // a heap, the greatest draw first
  std::vector<Bad> worst_;       // a heap, the least bad first
};

}  // namespace perigee
