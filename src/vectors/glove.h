// GloVe (Pennington et al. 2014): vectors whose products are near the logarithms of how often words stand near each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/pair_loops.h"
#include "src/vectors/sequences.h"
#include "src/vectors/vector_options.h"
#include "src/vectors/vector_rows.h"
#include "src/vectors/vector_training.h"

namespace perigee {

// Two elements that stand at most `window` apart, and the sum of 1 / distance over all such places; a <= b.
struct Together {
  int32_t a, b;
  float weight;
};
// In the order of a and b. Error(resources) for more than 2^30 pairs.
std::vector<Together> count_together(const Sequences& sequences, int64_t window, int threads, const std::atomic<bool>* stop);

class GloveTraining {
 public:
  GloveTraining(int64_t elements, const VectorOptions& options);
  // As the published program: AdaGrad, pairs in a drawn order that stays the same. False when it was stopped.
  bool run(std::vector<Together> pairs, const VectorTraining::Report& report, const std::atomic<bool>* stop);
  // The sum of an element's two vectors.
  VectorRows vectors() const;
  double loss() const { return loss_; }  // mean of weight (product + biases - logarithm)^2 over the pairs, in the last epoch

 private:
  double step(int64_t word, int64_t context, double logarithm, double factor);

  const VectorOptions options_;
  const int64_t elements_;
  VectorRows words_, contexts_, word_squares_, context_squares_;  // the last number of a row is the bias
  const PairLoops& loops_;
  double loss_ = 0;
};

}  // namespace perigee
