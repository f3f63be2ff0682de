// The common part of evaluations of whole sequences: the labels that a network gives, beside those that were wanted.
#pragma once

#include <functional>
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/metrics/text_scores.h"

namespace perigee {

class SequenceEvaluation : public Evaluation {
 public:
  SequenceEvaluation(const char* name, const EvaluationTask& task, int64_t beams) : name_(name), task_(task), beams_(beams) {}
  bool takes_sequences() const override { return true; }
  bool takes_steps() const override { return false; }
  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override;
  // Outputs of ctc are decoded, and their targets end at the first -1. Of others the likeliest class of each step that counts is taken.
  void add_sequences(const SequenceBatch& batch) override;

  void merge(const Evaluation& other) override;
  Json state() const override;
  void restore(const Json& state) override;

 protected:
  virtual void add_pair(const Symbols& predicted, const Symbols& wanted, double weight) = 0;
  // The numbers that it consists of: sums over all pairs.
  virtual std::vector<double*> sums() = 0;
  std::string text(const Symbols& labels) const { return label_text(labels, task_.class_names); }
  bool named() const { return !task_.class_names.empty(); }

 private:
  const char* name_;
  EvaluationTask task_;
  int64_t beams_;
};

inline constexpr Option kBeamsOption = {"beams", "integer", "1", "of ctc: labels are searched with so many prefixes at a time", {1, 1000}};

}  // namespace perigee
