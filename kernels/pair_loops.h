// The inner loops of word vectors (src/vectors/): a table for each instruction set. They are no ops of a graph, and nothing is checked here.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace perigee {

// Logistic regression between all pairs of two sets of rows, one step: p[i][o] = sigmoid(inputs[i] . outputs[o]) shall be labels[o].
// Both sets move by `rate` times the gradient at the values that they had before. A row may be there twice among the inputs, not among the outputs.
struct PairStep {
  float* const* inputs = nullptr;
  int64_t input_count = 0;  // at most kMaxPairInputs
  float* const* outputs = nullptr;
  int64_t output_count = 0;  // at most kMaxPairOutputs
  const float* labels = nullptr;
  float rate = 0;
  int64_t width = 0;  // of a row, a multiple of kPairAlignment; what is beyond its numbers is 0
  // Where what the rows move by goes, row after row; null: onto the rows themselves.
  float* input_changes = nullptr;
  float* output_changes = nullptr;
};

constexpr int64_t kMaxPairInputs = 256, kMaxPairOutputs = 256, kPairAlignment = 4;

struct PairLoops {
  // `scratch` has pair_scratch() numbers. Returns the sum of the pairs' losses if `wants_loss`, else 0.
  float (*step)(const PairStep& step, bool wants_loss, float* scratch) = nullptr;
  // out = factor * (sum of the rows)
  void (*sum)(const float* const* rows, int64_t count, int64_t width, float factor, float* out) = nullptr;
  // row += factor * change, for each row
  void (*add)(float* const* rows, int64_t count, int64_t width, float factor, const float* change) = nullptr;
  // out[i] = rows[i * width ...] . query
  void (*products)(const float* rows, int64_t count, int64_t width, const float* query, float* out) = nullptr;
  // The sum of squared differences.
  float (*distance)(const float* a, const float* b, int64_t width) = nullptr;
};

constexpr int64_t pair_scratch(int64_t inputs, int64_t outputs, int64_t width) { return inputs * ((outputs + 7) / 8 * 8 + width) + 64; }

const PairLoops& pair_loops(Isa isa);  // the widest up to that

}  // namespace perigee
