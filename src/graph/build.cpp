#include "src/graph/build.h"

#include "src/core/error.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

Value build_unary(const char* op, Value x) { return x.graph().apply(op, {x}); }
Value build_binary(const char* op, Value a, Value b) { return a.graph().apply(op, {a, b}); }
// A number beside a value is a scalar of the value's dtype.
Value number(Value like, double value) { return like.graph().constant(value, {like.dtype(), Shape()}); }

Value reduce(const char* op, Value x, const std::vector<int64_t>& axes, bool keep) {
  Json attrs = Json::object();
  attrs.set("axes", ints_json(axes));
  if (keep) attrs.set("keep", true);
  return x.graph().apply(op, {x}, std::move(attrs));
}

Json along(int axis) { return Json(Json::Object{{"axis", Json(axis)}}); }

Value with_shape(const char* op, Value x, const Shape& shape) {
  Json attrs = Json::object();
  attrs.set("shape", ints_json(shape.vector()));
  return x.graph().apply(op, {x}, std::move(attrs));
}

}  // namespace

Value operator+(Value a, Value b) { return build_binary("add", a, b); }
Value operator-(Value a, Value b) { return build_binary("sub", a, b); }
Value operator*(Value a, Value b) { return build_binary("mul", a, b); }
Value operator/(Value a, Value b) { return build_binary("div", a, b); }
Value operator-(Value a) { return build_unary("neg", a); }
Value operator+(Value a, double b) { return a + number(a, b); }
Value operator-(Value a, double b) { return a - number(a, b); }
Value operator*(Value a, double b) { return a * number(a, b); }
Value operator/(Value a, double b) { return a / number(a, b); }
Value operator+(double a, Value b) { return number(b, a) + b; }
Value operator-(double a, Value b) { return number(b, a) - b; }
Value operator*(double a, Value b) { return number(b, a) * b; }
Value operator/(double a, Value b) { return number(b, a) / b; }

Value exp(Value x) { return build_unary("exp", x); }
Value log(Value x) { return build_unary("log", x); }
Value sqrt(Value x) { return build_unary("sqrt", x); }
Value square(Value x) { return build_unary("square", x); }
Value abs(Value x) { return build_unary("abs", x); }
Value tanh(Value x) { return build_unary("tanh", x); }
Value sigmoid(Value x) { return build_unary("sigmoid", x); }
Value softplus(Value x) { return build_unary("softplus", x); }
Value relu(Value x) { return build_unary("relu", x); }
Value maximum(Value a, Value b) { return build_binary("maximum", a, b); }
Value minimum(Value a, Value b) { return build_binary("minimum", a, b); }
Value where(Value condition, Value a, Value b) { return a.graph().apply("where", {condition, a, b}); }
Value greater(Value a, Value b) { return build_binary("greater", a, b); }
Value greater_equal(Value a, Value b) { return build_binary("greater_equal", a, b); }
Value not_equal(Value a, Value b) { return build_binary("not_equal", a, b); }

Value cast(Value x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  Json attrs = Json::object();
  attrs.set("dtype", dtype_name(dtype));
  return x.graph().apply("cast", {x}, std::move(attrs));
}

Value reduce_sum(Value x, std::vector<int64_t> axes, bool keep) { return reduce("reduce_sum", x, axes, keep); }
Value reduce_mean(Value x, std::vector<int64_t> axes, bool keep) { return reduce("reduce_mean", x, axes, keep); }
Value reduce_max(Value x, std::vector<int64_t> axes, bool keep) { return reduce("reduce_max", x, axes, keep); }

Value reshape(Value x, const Shape& shape) { return x.shape() == shape ? x : with_shape("reshape", x, shape); }

Value transpose(Value x, std::vector<int64_t> order) {
  Json attrs = Json::object();
  attrs.set("order", ints_json(order));
  return x.graph().apply("transpose", {x}, std::move(attrs));
}

Value broadcast_to(Value x, const Shape& shape) { return x.shape() == shape ? x : with_shape("broadcast_to", x, shape); }

Value sum_to(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int extra = x.rank() - shape.rank();
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i < extra || (shape[i - extra] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  return reshape(axes.empty() ? x : reduce_sum(x, axes, true), shape);
}

Value slice(Value x, std::span<const int64_t> start, std::span<const int64_t> stop, std::span<const int64_t> step) {
  Json attrs = Json::object();
  if (!start.empty()) attrs.set("start", ints_json(start));
  if (!stop.empty()) attrs.set("stop", ints_json(stop));
  if (!step.empty()) attrs.set("step", ints_json(step));
  return x.graph().apply("slice", {x}, std::move(attrs));
}

Value concatenate(std::span<const Value> parts, int axis) { return parts[0].graph().apply("concatenate", parts, along(axis)); }
Value gather(Value x, Value places, int axis) { return x.graph().apply("gather", {x, places}, along(axis)); }
Value softmax(Value x, int axis) { return x.graph().apply("softmax", {x}, along(axis)); }
Value log_softmax(Value x, int axis) { return x.graph().apply("log_softmax", {x}, along(axis)); }

Value linear(Value x, Value weight, Value bias) {
  return bias ? x.graph().apply("linear", {x, weight, bias}) : x.graph().apply("linear", {x, weight});
}

Value matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
  Json attrs = Json::object();
  if (transpose_a) attrs.set("transpose_a", true);
  if (transpose_b) attrs.set("transpose_b", true);
  return a.graph().apply("matmul", {a, b}, std::move(attrs));
}

Value stop_gradient(Value x) { return build_unary("stop_gradient", x); }

Value zeros_like(Value x) { return full_like(x, 0); }
Value ones_like(Value x) { return full_like(x, 1); }

Value full_like(Value x, double value) {
  Json attrs = Json::object();
  attrs.set("value", value);
  return x.graph().apply("full_like", {x}, std::move(attrs));
}

}  // namespace perigee
