// Names for the ops that are used most, so that layers, losses and VJPs read like formulas. Each appends one node.
// Broadcasting follows NumPy.
#pragma once

#include <span>
#include <vector>

#include "src/graph/graph.h"

namespace perigee {

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

Value exp(Value x);
Value log(Value x);
Value sqrt(Value x);
Value square(Value x);
Value abs(Value x);
Value tanh(Value x);
Value sigmoid(Value x);
Value softplus(Value x);
Value relu(Value x);
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
Value where(Value condition, Value a, Value b);
Value greater(Value a, Value b);
Value greater_equal(Value a, Value b);
Value not_equal(Value a, Value b);
Value cast(Value x, Dtype dtype);

Value reduce_sum(Value x, std::vector<int64_t> axes, bool keep = false);
Value reduce_mean(Value x, std::vector<int64_t> axes, bool keep = false);
Value reduce_max(Value x, std::vector<int64_t> axes, bool keep = false);
Value reshape(Value x, const Shape& shape);
Value transpose(Value x, std::vector<int64_t> order);
Value broadcast_to(Value x, const Shape& shape);
// The adjoint of broadcasting: sums `x` down to `shape`.
Value sum_to(Value x, const Shape& shape);
// x[start:stop:step] by dimension; an empty list leaves out that bound.
Value slice(Value x, std::span<const int64_t> start, std::span<const int64_t> stop = {}, std::span<const int64_t> step = {});
Value concatenate(std::span<const Value> parts, int axis);
Value gather(Value x, Value places, int axis);
Value softmax(Value x, int axis = 1);
Value log_softmax(Value x, int axis = 1);
// x weight^T + bias, of a weight [outputs, inputs] and a bias that may be empty.
Value linear(Value x, Value weight, Value bias = {});
Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
Value stop_gradient(Value x);  // the same numbers, through which no gradient flows
Value zeros_like(Value x);
Value ones_like(Value x);
Value full_like(Value x, double value);

}  // namespace perigee
