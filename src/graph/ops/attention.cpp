// Scaled dot-product attention, with its gradient.
#include "kernels/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kAttentionScale = {"scale", "number", "0", "factor of the scores; 0: one over the root of a head's features", {.low = 0}};
constexpr Option kCausal = {
    "causal", "name",
    "none",   "looks at no key behind its own position; upper_left: query i is at i; lower_right: the last query is at the last key",
    {},       {"none", "upper_left", "lower_right"}};
constexpr Option kWindow = {"window", "integer", "0", "looks only at keys less than so far away; 0: at all", {.low = 0}};
constexpr Option kAttentionAlibi = {"alibi", "boolean", "false", "lowers scores by the distance times a slope of the head (ALiBi)"};
constexpr Option kDropout = {"dropout", "number", "0", "probability with which a key is left out", {0, 0.999999}};
constexpr Option kAttentionStream = {"stream", "integer", "0", "which draw of the model dropout makes"};
constexpr Option kAttentionGroups = {
    "kv_heads", "integer", "0", "key heads, where the first operand holds queries, keys and values of all heads", {.low = 0}};
constexpr Option kAttentionSegments = {
    "segments", "boolean", "false", "the mask numbers the sequences that lie one after the other in a row; steps look at their own alone"};
constexpr Option kAttentionOptions[] = {kAttentionScale, kCausal,          kWindow,          kAttentionAlibi,
                                        kDropout,        kAttentionStream, kAttentionGroups, kAttentionSegments};

bool attention_has(const OpCall& call, size_t i) { return i < call.inputs.size() && call.present[i]; }

[[noreturn]] void refuse_attention(const char* what, const std::string& got, const std::string& expected, const char* hint = "") {
  throw Error(ErrorKind::model, {.what = std::string("attention: ") + what, .got = got, .expected = expected, .hint = hint});
}

// Sizes of a call whose operands q, k, v begin at `first`.
struct AttentionSizes {
  bool packed;
  int64_t n, queries, keys, heads, groups, features, values;
  Dtype dtype;

  AttentionSizes(const OpCall& call, size_t first) {
    const Type& q = call.inputs[first];
    packed = !attention_has(call, first + 1) && !attention_has(call, first + 2);
    groups = attr_int(call.attrs, kAttentionGroups);
    if (q.shape.rank() != 4 || !is_floating(q.dtype))
      refuse_attention("takes heads of features", q.text(), "numbers [examples, steps, heads, features]");
    dtype = q.dtype;
    n = q.shape[0], queries = keys = q.shape[1], heads = q.shape[2], features = values = q.shape[3];
    if (packed) split_heads();
    else read_keys(call, first);
    if (heads < 1 || groups < 1 || heads % groups != 0)
      refuse_attention("the heads of queries are no multiple of those of keys", std::to_string(heads) + " and " + std::to_string(groups),
                       "each key head serves the same number of query heads");
    if (heads * queries > (int64_t{1} << 32) / std::max<int64_t>(1, attention_blocks(keys)))
      refuse_attention("too many scores in one example",
                       std::to_string(heads) + " heads of " + std::to_string(queries) + " x " + std::to_string(keys), "at most 2^34");
  }

  // The heads of one operand: those of queries, then of keys, then of values.
  void split_heads() {
    if (groups < 1)
      refuse_attention("needs kv_heads where there are no keys and values", "", "the number of key heads in the first operand");
    if (groups > heads / 3)
      refuse_attention("kv_heads leaves too few heads for queries", std::to_string(groups) + " of " + std::to_string(heads),
                       "at most " + std::to_string(heads / 3) + ", a third");
    heads -= 2 * groups;
  }

  void read_keys(const OpCall& call, size_t first) {
    const Type& q = call.inputs[first];
    if (!attention_has(call, first + 1) || !attention_has(call, first + 2))
      refuse_attention("has keys without values", "", "both, or neither");
    if (groups != 0) refuse_attention("kv_heads is said by the keys", std::to_string(groups), "no kv_heads where there are keys");
    const Type &k = call.inputs[first + 1], &v = call.inputs[first + 2];
    if (k.shape.rank() != 4 || k.dtype != q.dtype || k.shape[0] != n || k.shape[3] != features)
      refuse_attention("the keys do not fit the queries", k.text() + " with " + q.text(), "the same examples and features");
    if (v.shape.rank() != 4 || v.dtype != q.dtype || v.shape.with(3, features) != k.shape)
      refuse_attention("the values do not fit the keys", v.text() + " with " + k.text(), "the same examples, steps and heads");
    keys = k.shape[1], groups = k.shape[2], values = v.shape[3];
  }

  void check_mask(const OpCall& call, size_t i) const {
    const bool segments = attr_bool(call.attrs, kAttentionSegments);
    if (segments && (queries != keys || !attention_has(call, i)))
      refuse_attention("segments are of steps that look at each other",
                       attention_has(call, i) ? std::to_string(queries) + " queries, " + std::to_string(keys) + " keys" : "no mask",
                       "as many queries as keys, and a mask with the number of each step's sequence");
    if (!attention_has(call, i)) return;
    const Type& mask = call.inputs[i];
    if (mask.shape != Shape{n, keys} || (mask.dtype != dtype && mask.dtype != statistics()))
      refuse_attention("the mask does not fit the keys", mask.text(), Type{statistics(), Shape{n, keys}}.text());
  }

  Dtype statistics() const { return is_half(dtype) ? Dtype::f32 : dtype; }
  Type result() const { return {dtype, Shape{n, queries, heads, values}}; }
  Type sums() const { return {statistics(), Shape{n, heads, queries}}; }
};

std::vector<Type> infer_attention(const OpCall& call) {
  const AttentionSizes sizes(call, 0);
  sizes.check_mask(call, 3);
  return {sizes.result(), sizes.sums()};
}

std::vector<Type> infer_attention_grad(const OpCall& call) {
  const AttentionSizes sizes(call, 1);
  sizes.check_mask(call, 4);
  for (const size_t i : {0, 5})
    if (call.inputs[i] != sizes.result()) refuse_attention("the gradient does not fit", call.inputs[i].text(), sizes.result().text());
  if (call.inputs[6] != sizes.sums()) refuse_attention("the sums do not fit", call.inputs[6].text(), sizes.sums().text());
  if (sizes.packed) return {call.inputs[1]};
  return {call.inputs[1], call.inputs[2], call.inputs[3]};
}

size_t write_attention_params(const OpCall& call, size_t first, void* out) {
  const AttentionSizes sizes(call, first);
  const double scale = attr_number(call.attrs, kAttentionScale);
  const std::string causal = attr_string(call.attrs, kCausal);
  const AttentionParams params{.scale = scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, sizes.features))),
                               .groups = sizes.packed ? sizes.groups : 0,
                               .shift = causal == "lower_right" ? sizes.keys - sizes.queries : 0,
                               .window = std::min(attr_int(call.attrs, kWindow), sizes.queries + sizes.keys),  // beyond, all keys are near
                               .causal = causal != "none",
                               .segments = attr_bool(call.attrs, kAttentionSegments),
                               .alibi = attr_bool(call.attrs, kAttentionAlibi),
                               .dropout = attr_number(call.attrs, kDropout),
                               .stream = static_cast<uint64_t>(attr_int(call.attrs, kAttentionStream))};
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

size_t attention_params(const OpCall& call, void* out) { return write_attention_params(call, 0, out); }
size_t attention_params_grad(const OpCall& call, void* out) { return write_attention_params(call, 1, out); }

// Floating-point operations of one product of queries and keys.
double product_flops(const OpCall& call, size_t first) {
  const AttentionSizes s(call, first);
  const double pairs =
      static_cast<double>(s.queries) * static_cast<double>(s.keys) * (attr_string(call.attrs, kCausal) == "none" ? 1 : 0.5);
  return pairs * static_cast<double>(s.n * s.heads) * static_cast<double>(s.features + s.values);
}

double attention_flops(const OpCall& call) { return 2 * product_flops(call, 0); }
double attention_flops_grad(const OpCall& call) { return 5 * product_flops(call, 1); }

std::vector<Value> attention_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  if (grads[1])
    throw Error(ErrorKind::model, {.what = "the sums of attention cannot be differentiated", .hint = "use its first result for the loss"});
  const auto in = [&](size_t i) { return i < node.inputs.size() ? node.in(graph, i) : Value(); };
  const Value operands[] = {grads[0], in(0), in(1), in(2), in(3), node.out(graph, 0), node.out(graph, 1)};
  std::vector<Value> flows = graph.apply_all("attention_grad", operands, node.attrs);
  flows.resize(node.inputs.size());
  return flows;
}

// Row by row over the queries; keys, values and mask have the same examples.
Sliced attention_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.present[i] && (inputs[i] != inputs[0] || inputs[i] == Sliced::partial)) return Sliced::mixed;
  return inputs[0];
}

constexpr OpDef kAttentionOps[] = {
    {.name = "attention",
     .doc = "softmax(scale q k^T) v for heads of queries [n, steps, heads, features], keys, values; optional mask [n, keys]. Also the "
            "logarithm of each query's sum.",
     .attributes = {.options = kAttentionOptions},
     .max_inputs = 4,
     .infer = infer_attention,
     .vjp = attention_vjp,
     .sliced = attention_sliced,
     .params = attention_params,
     .flops = attention_flops,
     .operand_dtypes = OperandDtypes::real,
     .precision = Precision::follows,
     .parameters = 0b1000},
    {.name = "attention_grad",
     .doc = "Gradients of attention's q, k and v from do, q, k, v, mask, o and the sums.",
     .attributes = {.options = kAttentionOptions},
     .min_inputs = 7,
     .max_inputs = 7,
     .infer = infer_attention_grad,
     .sliced = attention_sliced,
     .params = attention_params_grad,
     .flops = attention_flops_grad,
     .internal = true,
     .derivative = true},
};

}  // namespace

extern const OpList ops_attention;
const OpList ops_attention = op_list(kAttentionOps);

}  // namespace perigee
