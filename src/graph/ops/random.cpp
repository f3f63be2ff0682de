// Random draws in the shape of an operand.
#include "kernels/ops/random.h"

#include <cstring>

#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kPer = {
    "per", "name", "example", "a draw for each example, which are dimension 0, or for each step", {}, {"example", "step"}};
constexpr Option kRandomStream = {"stream", "integer", "0", "which draw of the model this is"};
constexpr Option kLow = {"low", "number", "0", "the least"}, kHigh = {"high", "number", "1", "above all"};
constexpr Option kMean = {"mean", "number", "0", "of the distribution"}, kDeviation = {"stddev", "number", "1", "standard deviation"};
constexpr Option kUniform[] = {kPer, kRandomStream, kLow, kHigh}, kNormal[] = {kPer, kRandomStream, kMean, kDeviation};

bool per_example(const OpCall& call) { return attr_string(call.attrs, kPer) == "example"; }

std::vector<Type> infer_random(const OpCall& call) {
  const Type& like = call.inputs[0];
  if (like.dtype != Dtype::f32 && like.dtype != Dtype::f64)
    throw Error(ErrorKind::model, {.what = "random numbers are f32 or f64", .got = like.text()});
  if (per_example(call) && like.shape.rank() == 0)
    throw Error(ErrorKind::model,
                {.what = "a draw per example needs a dimension of examples", .got = like.text(), .hint = "use per = \"step\""});
  constexpr int64_t kMost = int64_t{1} << 34;  // blocks of four are counted in 32 bits
  if (like.shape.elements() > kMost)
    throw Error(ErrorKind::resources, {.what = "too many random numbers in one draw", .got = like.text(), .expected = "at most 2^34"});
  return {like};
}

Sliced sliced_random(const OpCall& call, std::span<const Sliced> inputs) {
  if (per_example(call)) return inputs[0] == Sliced::batch ? Sliced::batch : Sliced::mixed;
  return inputs[0] == Sliced::whole || inputs[0] == Sliced::partial ? Sliced::whole : Sliced::mixed;
}

size_t write_random_params(const OpCall& call, double offset, double scale, void* out) {
  const RandomParams params{static_cast<uint64_t>(attr_int(call.attrs, kRandomStream)), offset, scale, per_example(call)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

size_t uniform_params(const OpCall& call, void* out) {
  const double low = attr_number(call.attrs, kLow), high = attr_number(call.attrs, kHigh);
  return write_random_params(call, low, high - low, out);
}

size_t normal_params(const OpCall& call, void* out) {
  return write_random_params(call, attr_number(call.attrs, kMean), attr_number(call.attrs, kDeviation), out);
}

constexpr OpDef kRandomOps[] = {
    {.name = "random_uniform",
     .doc = "Uniform on [low, high) in the shape of x.",
     .attributes = {.options = kUniform},
     .infer = infer_random,
     .sliced = sliced_random,
     .params = uniform_params,
     .random = true,
     .operand_dtypes = OperandDtypes::real,
     .elementwise = true},
    {.name = "random_normal",
     .doc = "Normal with mean and stddev in the shape of x.",
     .attributes = {.options = kNormal},
     .infer = infer_random,
     .sliced = sliced_random,
     .params = normal_params,
     .random = true,
     .operand_dtypes = OperandDtypes::real,
     .elementwise = true},
};

}  // namespace

extern const OpList ops_random;
const OpList ops_random = op_list(kRandomOps);

}  // namespace perigee
