// The likeliest text: keeps the `beams` best beginnings at every length. The best of those that reach their end or a stop text is set aside, and compared
// with the others at the end.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "src/generate/generate_options.h"
#include "src/generate/next_scores.h"
#include "src/generate/text_model.h"

namespace perigee {

struct FoundText {
  std::vector<int64_t> units;  // after the prompt
  std::string text;
  double score = 0;      // the sum of the units' log probabilities over length ^ length_penalty
  bool stopped = false;  // by a stop text
};

class BeamSearch {
 public:
  // All must outlive this. `scores` has `options.beams` rows and has begun with `prompt`, which are TextModel::numbers().
  BeamSearch(const TextModel& text, NextScores& scores, const GenerateOptions& options, std::span<const int64_t> prompt);
  // One more unit for every beam; false: the search is over.
  bool step();
  FoundText best() const;

 private:
  struct Beam {
    std::vector<int64_t> units;
    std::string text;
    double sum = 0;
  };
  struct Candidate {
    double sum = 0;
    int beam = 0;
    int64_t unit = 0;
  };
  void rank();
  bool set_aside(const Beam& beam);
  double score_of(double sum, size_t length) const;

  const TextModel& text_;
  NextScores& scores_;
  const GenerateOptions& options_;
  std::vector<int64_t> prompt_;
  Sampler sampler_;
  int64_t most_;  // units
  std::vector<Beam> beams_;
  std::vector<Candidate> candidates_;
  std::vector<double> row_;
  int64_t finished_ = 0;  // beams that were set aside
  FoundText best_finished_{{}, "", -std::numeric_limits<double>::infinity(), false};
};

}  // namespace perigee
