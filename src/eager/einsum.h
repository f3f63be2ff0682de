// Sums of products over labels, as NumPy's einsum: operands are joined from the left, two at a time, each pair permuted and reshaped into one
// batched matrix product. A label that an operand repeats takes its diagonal; "..." stands for the dimensions that no label names, which
// broadcast. Without "->" the result has the dimensions of "...", then the labels that appear once, in alphabetical order.
#pragma once

#include <span>
#include <string>

#include "src/eager/recorder.h"

namespace perigee {

// Error(usage) names the formula, labels and shapes.
Array einsum(const std::string& formula, std::span<const Array> operands);
// The same of a graph's values.
Value einsum(const std::string& formula, std::span<const Value> operands);
// The same of values that the recorder gave.
int einsum(Recorder& recorder, const std::string& formula, std::span<const int> operands);

}  // namespace perigee
