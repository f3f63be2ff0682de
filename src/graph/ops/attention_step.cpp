// One step of causal self-attention with the keys and values of the steps before.
#include "kernels/ops/attention_step.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kGroups = {"kv_heads", "integer", nullptr, "heads of keys, and of values", {.low = 1}};
constexpr Option kScale = {"scale", "number", "0", "factor of the scores; 0: one over the root of a head's features", {.low = 0}};
constexpr Option kAlibi = {"alibi", "boolean", "false", "lowers scores by the distance times a slope of the head (ALiBi)"};
constexpr Option kOptions[] = {kGroups, kScale, kAlibi};

int64_t heads_of(const OpCall& call) { return call.inputs[0].shape[2] - 2 * attr_int(call.attrs, kGroups); }

// Layers alone make the op, so that what does not fit is their mistake.
std::vector<Type> infer(const OpCall& call) {
  const Type& x = call.inputs[0];
  [[maybe_unused]] const Type& past = call.inputs[1];
  [[maybe_unused]] const int64_t groups = attr_int(call.attrs, kGroups);
  assert(x.shape.rank() == 4 && is_floating(x.dtype) && x.shape[1] == 1 && heads_of(call) > 0 && heads_of(call) % groups == 0);
  assert(past.shape.rank() == 4 && past.dtype == x.dtype && past.shape[1] > 0 && past.shape.with(1, 1) == x.shape.with(2, 2 * groups));
  assert((call.inputs[2] == Type{Dtype::i64, Shape{x.shape[0]}}));
  return {{x.dtype, x.shape.with(2, heads_of(call))}};
}

size_t params(const OpCall& call, void* out) {
  const double scale = attr_number(call.attrs, kScale);
  const AttentionStepParams params{
      .scale = scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, call.inputs[0].shape[3]))),
      .groups = attr_int(call.attrs, kGroups),
      .alibi = attr_bool(call.attrs, kAlibi)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

double flops(const OpCall& call) {
  const Shape &x = call.inputs[0].shape, &past = call.inputs[1].shape;
  return 4.0 * static_cast<double>(x[0] * heads_of(call) * x[3]) * static_cast<double>(past[1]);
}

Sliced sliced(const OpCall&, std::span<const Sliced> inputs) {
  const bool same = inputs[1] == inputs[0] && inputs[2] == inputs[0] && inputs[0] != Sliced::partial;
  return same ? inputs[0] : Sliced::mixed;
}

constexpr OpDef kOps[] = {{.name = "attention_step",
                           .doc = "Attention of one step to itself and to the steps before, whose keys and values are kept in a ring.",
                           .attributes = {.options = kOptions},
                           .min_inputs = 3,
                           .max_inputs = 3,
                           .infer = infer,
                           .sliced = sliced,
                           .params = params,
                           .flops = flops,
                           .internal = true}};

}  // namespace

extern const OpList ops_attention_step;
const OpList ops_attention_step = op_list(kOps);

}  // namespace perigee
