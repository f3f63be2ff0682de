// The common part of BLEU and chrF: how many n-grams of words or characters a network's sequences have in common with those that were wanted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/model/metrics/rows.h"
#include "src/model/metrics/sequences.h"

namespace perigee {

enum class NgramsOf { words, words_13a, characters };

class NgramFigure : public SequenceEvaluation {
 public:
  NgramFigure(const char* name, NgramsOf of, int64_t beams, const EvaluationTask& task)
      : SequenceEvaluation(name, task, beams), name_(name), of_(of), ngrams_(of == NgramsOf::characters ? 6 : 4) {}

  Json result() const override {
    return Json(Json::Object{{name_, figure(of_ == NgramsOf::characters ? ngrams_.chrf() : ngrams_.bleu())}});
  }

 protected:
  void add_pair(const Symbols& predicted, const Symbols& wanted, double weight) override {
    const std::string said = text(predicted), meant = text(wanted);
    if (of_ == NgramsOf::characters) return ngrams_.add(characters_of(said, true), characters_of(meant, true), weight);
    const bool parted = of_ == NgramsOf::words_13a;
    const auto [a, b] = parted ? words_of(tokenized_13a(said), tokenized_13a(meant)) : words_of(said, meant);
    ngrams_.add(a, b, weight);
  }

  std::vector<double*> sums() override {
    std::vector<double*> all;
    for (double& number : ngrams_.numbers()) all.push_back(&number);
    return all;
  }

 private:
  const char* name_;
  NgramsOf of_;
  NgramSums ngrams_;
};

}  // namespace perigee
