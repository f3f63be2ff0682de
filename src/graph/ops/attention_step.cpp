// One step of causal self-attention with the keys and values of the steps before.
#include "kernels/ops/attention_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kGroups = {"kv_heads", "integer", nullptr, "heads of keys, and of values", {.low = 1}};
constexpr Option kScale = {"scale", "number", "0", "factor of the scores; 0: one over the root of a head's features", {.low = 0}};
constexpr Option kAlibi = {"alibi", "boolean", "false", "lowers scores by the distance times a slope of the head (ALiBi)"};
constexpr Option kOptions[] = {kGroups, kScale, kAlibi};

int64_t heads_of(const OpCall& call) { return call.inputs[0].shape[2] - 2 * attr_int(call.attrs, kGroups); }

std::vector<Type> infer(const OpCall& call) {
  const Type &x = call.inputs[0], &past = call.inputs[1], &before = call.inputs[2];
  const auto refuse = [](const char* what, const std::string& got, const std::string& expected) {
    throw Error(ErrorKind::model, {.what = std::string("attention_step: ") + what, .got = got, .expected = expected});
  };
  const int64_t groups = attr_int(call.attrs, kGroups);
  if (x.shape.rank() != 4 || !is_floating(x.dtype) || x.shape[1] != 1)
    refuse("takes heads of features of one step", x.text(), "numbers [examples, 1, heads, features]");
  const int64_t heads = groups > x.shape[2] / 3 ? 0 : heads_of(call);
  if (heads < 1 || heads % groups != 0)
    refuse("the heads of queries are no multiple of those of keys",
           std::to_string(x.shape[2]) + " heads, kv_heads " + std::to_string(groups),
           "each key head serves the same number of query heads");
  if (past.shape.rank() != 4 || past.dtype != x.dtype || past.shape[1] < 1 || past.shape.with(1, 1) != x.shape.with(2, 2 * groups))
    refuse("the past does not fit the step", past.text() + " with " + x.text(),
           "the same examples and features, a key and a value of each head");
  if (before != Type{Dtype::i64, Shape{x.shape[0]}})
    refuse("needs the number of steps before, of each example", before.text(), Type{Dtype::i64, Shape{x.shape[0]}}.text());
  return {{x.dtype, x.shape.with(2, heads)}};
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
