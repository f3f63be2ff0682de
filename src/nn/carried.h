// Values that each row of a batch carries from one step to the next: what a layer remembers of its stream. They are zero where a stream
// begins, have no gradient, and are neither averaged nor sent. A network that is built for examples that stand alone has none.
#pragma once

#include <cstdint>
#include <string>

#include "src/tensor/shape.h"

namespace perigee {

// Which layers of a network carry. `stated`: those whose options say so; `all`: every one that can, for sessions, and the others are refused.
enum class Carry : uint8_t { none, stated, all };

struct CarriedSpec {
  std::string name;  // "lstm1.h"
  Type row;          // of one row, without the batch
  // Above 0: a ring, whose first dimension are so many slots. A step gives one slot: that of its place in the sequence, modulo this.
  int64_t slots = 0;
};

// The graph's name for a value: the input that gives it, and the output that is its next value.
inline std::string carried_leaf(const std::string& name) { return "@carried:" + name; }

// How many steps a row has read in its session, a whole number; there where a layer asks (LayerContext::steps_before).
inline constexpr const char* kStepsRead = "steps";

}  // namespace perigee
