// Chooses the next unit of a text from a model's scores (logits): filters in the order of Hugging Face's transformers, then a draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace perigee {

// A filter with its neutral value does nothing.
struct SamplingOptions {
  double repetition_penalty =
      1;                  // Keskar et al. 2019, CTRL, section 4.1: scores of units that have occurred are divided, negative ones multiplied
  int64_t no_repeat = 0;  // no sequence of so many units occurs twice; 0: off
  double temperature = 1;  // scores are divided by it; 0: the largest is taken, and what follows has no effect
  int64_t top_k = 0;       // as many of the largest, and what equals the last of them; 0: off
  double top_p = 1;        // the fewest whose probabilities add up to it (Holtzman et al. 2020); 1: off
  double min_p = 0;        // at least this share of the largest probability (Nguyen et al. 2024); 0: off
  double typical_p = 1;    // as top_p, beginning with those whose surprise is nearest to the mean (Meister et al. 2023); 1: off
  double epsilon = 0;      // at least this probability (Hewitt et al. 2022), as eta: less where the entropy is large; 0: off
  double eta = 0;
  uint64_t seed = 0;
};

// Allocates nothing after the first call. Not thread-safe.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options) {}

  // Applies the filters to `scores` in place; what is removed becomes -infinity, and at least one finite score stays. `previous`: all units
  // of the text so far.
  void filter(std::span<double> scores, std::span<const int64_t> previous);
  // The number of the unit at `position` of the text that is made: a function of the scores, the seed and the position.
  int64_t draw(std::span<const double> scores, uint64_t position);

 private:
  void penalize(std::span<double> scores, std::span<const int64_t> previous);
  void forbid_repeats(std::span<double> scores, std::span<const int64_t> previous) const;
  void probabilities(std::span<const double> scores);
  void order_by(std::span<const double> keys);
  void keep_top_k(std::span<double> scores);
  void keep_top_p(std::span<double> scores);
  void keep_typical(std::span<double> scores);
  void keep_at_least(std::span<double> scores, double probability);
  double entropy() const;

  SamplingOptions options_;
  std::vector<double> probabilities_, keys_;
  std::vector<int64_t> order_;
  std::vector<bool> seen_;
};

// The first of the largest.
int64_t largest_score(std::span<const double> scores);
// The same scores as logarithms of probabilities.
void log_softmax(std::span<double> scores);

}  // namespace perigee
