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

constexpr Option kAttentionStepGroups = {"kv_heads", "integer", nullptr, "heads of keys, and of values", {.low = 1}};
constexpr Option kAttentionStepScale = {
    "scale", "number", "0", "factor of the scores; 0: one over the root of a head's features", {.low = 0}};
constexpr Option kAttentionStepAlibi = {"alibi", "boolean", "false", "lowers scores by the distance times a slope of the head (ALiBi)"};
constexpr Option kAttentionStepOptions[] = {kAttentionStepGroups, kAttentionStepScale, kAttentionStepAlibi};

int64_t heads_of(const OpCall& call) { return call.inputs[0].shape[2] - 2 * attr_int(call.attrs, kAttentionStepGroups); }

// Layers alone make the op, so that what does not fit is their mistake.
std::vector<Type> infer_attention_step(const OpCall& call) {
  const Type& x = call.inputs[0];
  [[maybe_unused]] const Type& past = call.inputs[1];
  [[maybe_unused]] const int64_t groups = attr_int(call.attrs, kAttentionStepGroups);
  assert(x.shape.rank() == 4 && is_floating(x.dtype) && x.shape[1] == 1 && heads_of(call) > 0 && heads_of(call) % groups == 0);
  assert(past.shape.rank() == 4 && past.dtype == x.dtype && past.shape[1] > 0 && past.shape.with(1, 1) == x.shape.with(2, 2 * groups));
  assert((call.inputs[2] == Type{Dtype::i64, Shape{x.shape[0]}}));
  return {{x.dtype, x.shape.with(2, heads_of(call))}};
}

size_t attention_step_params(const OpCall& call, void* out) {
  const double scale = attr_number(call.attrs, kAttentionStepScale);
  const AttentionStepParams params{
      .scale = scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, call.inputs[0].shape[3]))),
      .groups = attr_int(call.attrs, kAttentionStepGroups),
      .alibi = attr_bool(call.attrs, kAttentionStepAlibi)};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

double attention_step_flops(const OpCall& call) {
  const Shape &x = call.inputs[0].shape, &past = call.inputs[1].shape;
  return 4.0 * static_cast<double>(x[0] * heads_of(call) * x[3]) * static_cast<double>(past[1]);
}

Sliced attention_step_sliced(const OpCall&, std::span<const Sliced> inputs) {
  const bool same = inputs[1] == inputs[0] && inputs[2] == inputs[0] && inputs[0] != Sliced::partial;
  return same ? inputs[0] : Sliced::mixed;
}

constexpr OpDef kAttentionStepOps[] = {
    {.name = "attention_step",
     .doc = "Attention of one step to itself and to the steps before, whose keys and values are kept in a ring.",
     .attributes = {.options = kAttentionStepOptions},
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_attention_step,
     .sliced = attention_step_sliced,
     .params = attention_step_params,
     .flops = attention_step_flops,
     .internal = true}};

}  // namespace

extern const OpList ops_attention_step;
const OpList ops_attention_step = op_list(kAttentionStepOps);

}  // namespace perigee
