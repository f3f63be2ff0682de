// Element-wise ops with NumPy broadcasting: arithmetic, functions of one variable, comparisons, logic, choice.
#include "kernels/ops/elementwise.h"

#include <numbers>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

bool is_integer(Dtype dtype) { return dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::u8; }

[[noreturn]] void wrong_dtype(const Type& type, const char* expected) {
  throw Error(ErrorKind::model, {.what = "an operand's dtype does not fit", .got = type.text(), .expected = expected, .hint = "cast it"});
}

std::vector<Type> infer_real(const OpCall& call) {
  if (!is_floating(call.inputs[0].dtype)) wrong_dtype(call.inputs[0], "a floating-point number");
  return {call.inputs[0]};
}

std::vector<Type> infer_number(const OpCall& call) {
  if (!is_floating(call.inputs[0].dtype) && !is_integer(call.inputs[0].dtype)) wrong_dtype(call.inputs[0], "a number");
  return {call.inputs[0]};
}

std::vector<Type> infer_truth(const OpCall& call) { return {{Dtype::boolean, call.inputs[0].shape}}; }

Shape broadcast_pair(const Type& a, const Type& b) {
  if (a.dtype != b.dtype)
    throw Error(ErrorKind::model, {.what = "operands have different dtypes", .got = a.text() + " and " + b.text(), .hint = "cast one"});
  return broadcast(a.shape, b.shape);
}

std::vector<Type> infer_arithmetic(const OpCall& call) {
  const Type& a = call.inputs[0];
  if (!is_floating(a.dtype) && !is_integer(a.dtype)) wrong_dtype(a, "a number");
  return {{a.dtype, broadcast_pair(a, call.inputs[1])}};
}

std::vector<Type> infer_comparison(const OpCall& call) { return {{Dtype::boolean, broadcast_pair(call.inputs[0], call.inputs[1])}}; }

std::vector<Type> infer_logic(const OpCall& call) { return {{Dtype::boolean, broadcast(call.inputs[0].shape, call.inputs[1].shape)}}; }

std::vector<Type> infer_where(const OpCall& call) {
  if (call.inputs[0].dtype != Dtype::boolean) wrong_dtype(call.inputs[0], "a boolean condition");
  return {{call.inputs[1].dtype, broadcast(call.inputs[0].shape, broadcast_pair(call.inputs[1], call.inputs[2]))}};
}

// A product is linear in each factor, a quotient in its dividend.
Sliced sliced_mul(const OpCall& call, std::span<const Sliced> inputs) {
  const bool one_partial =
      (inputs[0] == Sliced::partial && inputs[1] == Sliced::whole) || (inputs[0] == Sliced::whole && inputs[1] == Sliced::partial);
  return one_partial ? Sliced::partial : sliced_elementwise(call, inputs);
}

Sliced sliced_div(const OpCall& call, std::span<const Sliced> inputs) {
  if (inputs[0] == Sliced::partial && inputs[1] == Sliced::whole) return Sliced::partial;
  return sliced_elementwise(call, inputs);
}

using Vjp = std::vector<Value> (*)(Graph&, const Node&, std::span<const Value>);
using Infer = std::vector<Type> (*)(const OpCall&);
using SlicedRule = Sliced (*)(const OpCall&, std::span<const Sliced>);

// `gradient` maps (x, y = f(x), gradient of y) to the gradient of x.
template <auto gradient>
std::vector<Value> unary_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  return {gradient(node.in(graph, 0), node.out(graph), grads[0])};
}

// `gradient` maps (a, b, y, gradient of y) to the gradients of a and b in y's shape.
template <auto gradient>
std::vector<Value> binary_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value a = node.in(graph, 0), b = node.in(graph, 1);
  const auto [da, db] = gradient(a, b, node.out(graph), grads[0]);
  return {sum_to(da, a.shape()), sum_to(db, b.shape())};
}

struct Pair {
  Value a, b;
};

Value zero(Value like) { return like.graph().constant(0, {like.dtype(), Shape()}); }
Value apply_elementwise(const char* op, Value x) { return x.graph().apply(op, {x}); }
Value apply_elementwise(const char* op, Value a, Value b) { return a.graph().apply(op, {a, b}); }

std::vector<Value> where_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value condition = node.in(graph, 0), none = zero(grads[0]);
  return {Value(), sum_to(where(condition, grads[0], none), node.in(graph, 1).shape()),
          sum_to(where(condition, none, grads[0]), node.in(graph, 2).shape())};
}

// b a^(b-1), and 0 where b is 0, which b a^(b-1) would not be at a = 0; a^b log(a).
std::vector<Value> pow_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Value a = node.in(graph, 0), b = node.in(graph, 1), g = grads[0];
  const Node& exponent = graph.node(b.id());
  if (std::string_view(exponent.op->name) == "full") {
    const double power = attr_number(exponent, "value");
    if (power == 0) return {};
    const Value lower = graph.constant(power - 1, b.type());  // a number again, so that simplify sees it
    return {sum_to(g * (apply_elementwise("pow", a, lower) * b), a.shape())};
  }
  const Value none = zero(g), positive = greater(a, zero(a));
  const Value slope = where(apply_elementwise("equal", b, zero(b)), none, b * apply_elementwise("pow", a, b - 1.0));
  const Value logarithm = log(where(positive, a, graph.constant(1, {a.dtype(), Shape()})));
  return {sum_to(g * slope, a.shape()), sum_to(g * where(positive, node.out(graph) * logarithm, none), b.shape())};
}

// -(-x).
std::optional<ValueId> simpler_neg(const SimplerCall& call) {
  if (call.made(0).op != call.node.op) return {};
  return call.made(0).inputs[0];
}

// x + 0, x * 1, x - 0, x / 1; with `either` the number may come first.
template <int number, bool either>
std::optional<ValueId> simpler_with(const SimplerCall& call) {
  if (call.fits(0) && call.numbers[1] == number) return call.operands[0];
  if (either && call.fits(1) && call.numbers[0] == number) return call.operands[1];
  return {};
}

// The powers that have an op of their own.
std::optional<ValueId> simpler_pow(const SimplerCall& call) {
  const std::optional<double> exponent = call.numbers[1];
  if (!call.fits(0) || !exponent) return {};
  if (*exponent == 1) return call.operands[0];
  static constexpr std::pair<double, const char*> kPowers[] = {{2, "square"}, {0.5, "sqrt"}, {-1, "reciprocal"}, {-0.5, "rsqrt"}};
  for (const auto& [number, op] : kPowers)
    if (*exponent == number && (number == 2 || call.type(0).dtype == Dtype::f32 || call.type(0).dtype == Dtype::f64))
      return call.graph.apply(op, {Value(&call.graph, call.operands[0])}).id();
  return {};
}

constexpr OpDef elementwise_unary(const char* name, const char* doc, Vjp vjp, Infer infer = infer_real,
                                  SlicedRule sliced = sliced_elementwise) {
  return {.name = name, .doc = doc, .infer = infer, .vjp = vjp, .sliced = sliced, .instruction = true, .elementwise = true};
}

constexpr OpDef elementwise_binary(const char* name, const char* doc, Infer infer, Vjp vjp = nullptr,
                                   SlicedRule sliced = sliced_elementwise) {
  return {.name = name,
          .doc = doc,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .vjp = vjp,
          .sliced = sliced,
          .instruction = true,
          .elementwise = true};
}

// Facts that few of them have.
struct Algebra {
  std::optional<ValueId> (*simpler)(const SimplerCall&) = nullptr;
  Terms terms = {};
  uint32_t scales = 0;
  const char* activation = nullptr;
};

constexpr OpDef with_algebra(OpDef op, Algebra algebra) {
  op.simpler = algebra.simpler;
  op.terms = algebra.terms;
  op.scales = algebra.scales;
  op.activation = algebra.activation;
  return op;
}

constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;

constexpr OpDef kElementwiseOpOps[] = {
    with_algebra(
        elementwise_unary("neg", "-x.", unary_vjp<[](Value, Value, Value g) { return -g; }>, infer_number, sliced_linear_elementwise),
        {.simpler = simpler_neg, .terms = {-1, 0}}),
    elementwise_unary("abs", "|x|.", unary_vjp<[](Value x, Value, Value g) { return g * apply_elementwise("sign", x); }>, infer_number),
    elementwise_unary("sign", "-1, 0 or 1.", nullptr, infer_number),
    elementwise_unary("square", "x * x.", unary_vjp<[](Value x, Value, Value g) { return g * x * 2.0; }>, infer_number),
    elementwise_unary("reciprocal", "1 / x.", unary_vjp<[](Value, Value y, Value g) { return -(g * y * y); }>),
    elementwise_unary("sqrt", "The square root.", unary_vjp<[](Value, Value y, Value g) { return g * 0.5 / y; }>),
    elementwise_unary("rsqrt", "1 / sqrt(x).", unary_vjp<[](Value, Value y, Value g) { return g * -0.5 * y * y * y; }>),
    elementwise_unary("exp", "e to the x.", unary_vjp<[](Value, Value y, Value g) { return g * y; }>),
    elementwise_unary("expm1", "exp(x) - 1, exact near 0.", unary_vjp<[](Value, Value y, Value g) { return g * (y + 1.0); }>),
    elementwise_unary("log", "The natural logarithm.", unary_vjp<[](Value x, Value, Value g) { return g / x; }>),
    elementwise_unary("log1p", "log(1 + x), exact near 0.", unary_vjp<[](Value x, Value, Value g) { return g / (x + 1.0); }>),
    elementwise_unary("sin", "Sine of radians.", unary_vjp<[](Value x, Value, Value g) { return g * apply_elementwise("cos", x); }>),
    elementwise_unary("cos", "Cosine of radians.", unary_vjp<[](Value x, Value, Value g) { return -(g * apply_elementwise("sin", x)); }>),
    elementwise_unary("tan", "Tangent of radians.", unary_vjp<[](Value, Value y, Value g) { return g * (y * y + 1.0); }>),
    elementwise_unary("asin", "Arc sine.", unary_vjp<[](Value x, Value, Value g) { return g * apply_elementwise("rsqrt", 1.0 - x * x); }>),
    elementwise_unary("acos", "Arc cosine.",
                      unary_vjp<[](Value x, Value, Value g) { return -(g * apply_elementwise("rsqrt", 1.0 - x * x)); }>),
    elementwise_unary("atan", "Arc tangent.", unary_vjp<[](Value x, Value, Value g) { return g / (x * x + 1.0); }>),
    elementwise_unary("sinh", "Hyperbolic sine.", unary_vjp<[](Value x, Value, Value g) { return g * apply_elementwise("cosh", x); }>),
    elementwise_unary("cosh", "Hyperbolic cosine.", unary_vjp<[](Value x, Value, Value g) { return g * apply_elementwise("sinh", x); }>),
    elementwise_unary("tanh", "Hyperbolic tangent.", unary_vjp<[](Value, Value y, Value g) { return g * (1.0 - y * y); }>),
    elementwise_unary("sigmoid", "1 / (1 + exp(-x)).", unary_vjp<[](Value, Value y, Value g) { return g * y * (1.0 - y); }>),
    elementwise_unary("softplus", "log(1 + exp(x)).", unary_vjp<[](Value x, Value, Value g) { return g * sigmoid(x); }>),
    with_algebra(elementwise_unary("relu", "max(x, 0).",
                                   unary_vjp<[](Value, Value y, Value g) { return where(greater(y, zero(y)), g, zero(g)); }>, infer_number),
                 {.activation = "relu"}),
    elementwise_unary("erf", "The error function.",
                      unary_vjp<[](Value x, Value, Value g) { return g * (exp(-(x * x)) * kTwoOverSqrtPi); }>),
    elementwise_unary("floor", "The largest integer not above x.", nullptr),
    elementwise_unary("ceil", "The smallest integer not below x.", nullptr),
    elementwise_unary("round", "The nearest integer, ties to even.", nullptr),
    elementwise_unary("logical_not", "x == 0.", nullptr, infer_truth),
    elementwise_unary("is_finite", "Neither infinite nor NaN.", nullptr, infer_truth),

    with_algebra(elementwise_binary("add", "a + b.", infer_arithmetic, binary_vjp<[](Value, Value, Value, Value g) {
                                      return Pair{g, g};
                                    }>,
                                    sliced_linear_elementwise),
                 {.simpler = simpler_with<0, true>, .terms = {1, 1}}),
    with_algebra(elementwise_binary("sub", "a - b.", infer_arithmetic, binary_vjp<[](Value, Value, Value, Value g) {
                                      return Pair{g, -g};
                                    }>,
                                    sliced_linear_elementwise),
                 {.simpler = simpler_with<0, false>, .terms = {1, -1}}),
    with_algebra(elementwise_binary("mul", "a * b.", infer_arithmetic, binary_vjp<[](Value a, Value b, Value, Value g) {
                                      return Pair{g * b, g * a};
                                    }>,
                                    sliced_mul),
                 {.simpler = simpler_with<1, true>, .scales = 0b11}),
    with_algebra(elementwise_binary("div", "a / b; of integers the floor, and 0 when b is 0.", infer_arithmetic,
                                    binary_vjp<[](Value, Value b, Value y, Value g) {
                                      const Value da = g / b;
                                      return Pair{da, -(da * y)};
                                    }>,
                                    sliced_div),
                 {.simpler = simpler_with<1, false>, .scales = 0b01}),
    with_algebra(elementwise_binary("pow", "a to the power b; the gradient with respect to b is 0 where a is not positive.",
                                    infer_arithmetic, pow_vjp),
                 {.simpler = simpler_pow}),
    elementwise_binary("maximum", "The larger one; the gradient of a tie goes to a.", infer_arithmetic,
                       binary_vjp<[](Value a, Value b, Value, Value g) {
                         const Value first = apply_elementwise("greater_equal", a, b), none = zero(g);
                         return Pair{where(first, g, none), where(first, none, g)};
                       }>),
    elementwise_binary("minimum", "The smaller one; the gradient of a tie goes to a.", infer_arithmetic,
                       binary_vjp<[](Value a, Value b, Value, Value g) {
                         const Value first = apply_elementwise("less_equal", a, b), none = zero(g);
                         return Pair{where(first, g, none), where(first, none, g)};
                       }>),
    elementwise_binary("mod", "a - floor(a / b) * b.", infer_arithmetic, binary_vjp<[](Value a, Value b, Value, Value g) {
                         return Pair{g, -(g * apply_elementwise("floor", a / b))};
                       }>),
    elementwise_binary("equal", "a == b.", infer_comparison),
    elementwise_binary("not_equal", "a != b.", infer_comparison),
    elementwise_binary("less", "a < b.", infer_comparison),
    elementwise_binary("less_equal", "a <= b.", infer_comparison),
    elementwise_binary("greater", "a > b.", infer_comparison),
    elementwise_binary("greater_equal", "a >= b.", infer_comparison),
    elementwise_binary("logical_and", "a != 0 and b != 0.", infer_logic),
    elementwise_binary("logical_or", "a != 0 or b != 0.", infer_logic),
    {.name = "where",
     .doc = "c ? a : b; c is boolean.",
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_where,
     .vjp = where_vjp,
     .sliced = sliced_elementwise,
     .instruction = true,
     .elementwise = true},
};

}  // namespace

extern const OpList ops_elementwise;
const OpList ops_elementwise = op_list(kElementwiseOpOps);

}  // namespace perigee
