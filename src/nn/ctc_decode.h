// Labels from the outputs of a network that was trained with the loss "ctc".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/view.h"
#include "src/core/json.h"

namespace perigee {

inline constexpr int64_t kMostCtcBeams = 1000;

struct LabelSequence {
  std::vector<int64_t> labels;
  double score = 0;  // log of the probability of all paths that are known to spell it; greedy: of the best path
};

// One example: `log_p` is f64 (C, T), logarithms of the classes' probabilities, of which the first `steps` steps are there.
// The most probable class of each step, the first of equals; repeated ones once, without blanks.
LabelSequence ctc_greedy(const View& log_p, int64_t steps, int64_t blank);
// The most probable label sequences, best first, at most `paths`: a search over prefixes that keeps the best `beams` at each step (Hannun et
// al., "First-pass large vocabulary continuous speech recognition using bi-directional recurrent DNNs", 2014, without a language model).
std::vector<LabelSequence> ctc_beam(const View& log_p, int64_t steps, int64_t blank, int64_t beams, int64_t paths);

// Example number `example` of probabilities [N, C, T], f32 or f64 and contiguous: with one beam ctc_greedy()'s alone.
std::vector<LabelSequence> ctc_decode(const View& probabilities, int64_t example, int64_t steps, int64_t blank, int64_t beams,
                                      int64_t paths);

// The class that stands for no label where `loss` is "ctc"; empty for other losses.
std::optional<int64_t> ctc_blank(const Json& loss);

}  // namespace perigee
