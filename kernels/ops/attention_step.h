// attention_step: one step of causal self-attention for sequences of which the steps before are kept. H query heads on G key heads, as in
// attention.h.
//   in 0 x [N,1,H+2G,d]: heads of queries, keys and values of the step at hand  in 1 past [N,S,2G,d]: keys and values of earlier steps, step p
//   in slot p modulo S  in 2 before [N] of i64: how many steps came before
//   out 0 o [N,1,H,d]: the query looks at its own step and at those before that are less than S away. The past stays as it is.
#pragma once

#include <cstdint>

namespace perigee {

struct AttentionStepParams {
  double scale = 1;
  int64_t groups = 0;  // G
  bool alibi = false;  // as in attention.h
};

// How many of the steps before are looked at, whatever number `before` is.
constexpr int64_t steps_looked_at(int64_t before, int64_t slots) { return before < 0 ? 0 : before < slots ? before : slots - 1; }

// Where step `before` - `back` lies.
constexpr int64_t slot_of_step(int64_t before, int64_t back, int64_t slots) { return (before - back) % slots; }

}  // namespace perigee
