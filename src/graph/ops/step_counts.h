// Shared by ops on sequences that may be told how many of their steps each example has.
#pragma once

#include "src/core/error.h"
#include "src/graph/op.h"

namespace perigee {

// Fails unless `x` is a sequence and operand `counts`, where there is one, counts its steps.
inline void check_step_counts(const OpCall& call, const Type& x, size_t counts, const char* what) {
  if (x.shape.rank() != 3 || (x.dtype != Dtype::f32 && x.dtype != Dtype::f64))
    throw Error(ErrorKind::model, {.what = what, .got = x.text(), .expected = "f32 or f64 [examples, channels, steps]"});
  if (call.inputs.size() > counts && call.present[counts] && call.inputs[counts] != Type{Dtype::i64, Shape{x.shape[0]}})
    throw Error(ErrorKind::model, {.what = "the counts of steps do not fit the examples",
                                   .got = call.inputs[counts].text(),
                                   .expected = Type{Dtype::i64, Shape{x.shape[0]}}.text()});
}

// Each example's result is of its own operands.
inline Sliced sliced_alike(const OpCall& call, std::span<const Sliced> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.present[i] && inputs[i] != inputs[0]) return Sliced::mixed;
  return inputs[0] == Sliced::partial ? Sliced::mixed : inputs[0];
}

}  // namespace perigee
