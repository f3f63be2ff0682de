#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kGlobalPoolPositional[] = {"kind"};
constexpr Option kGlobalPoolOptions[] = {
    {"kind", "name", "average", "what becomes of the positions", {}, {"average", "max", "sum", "pnorm"}},
    {"p", "number", "2", "the power of pnorm", {1, 100}}};

Value pooled(LayerContext& context, Value x, const std::vector<int64_t>& axes) {
  const Config& options = context.options();
  const std::string kind = options.choice("kind");
  Graph& graph = context.graph();
  const auto number = [&](double value) { return graph.constant(value, {x.dtype(), Shape()}); };
  Value mask = context.mask(x);
  if (mask) {
    mask = mask_over(mask, x);
    if (kind != "max") x = x * mask;
  }
  if (kind == "average" && !mask) return reduce_mean(x, axes);
  if (kind == "average") {
    const double others = static_cast<double>(product(x.shape(), 2)) / static_cast<double>(mask.shape()[mask.rank() - 1]);
    return reduce_sum(x, axes) / maximum(reduce_sum(mask, axes) * others, number(1));
  }
  if (kind == "max" && !mask) return reduce_max(x, axes);
  if (kind == "max") {
    const Value none = number(kBelowAll), largest = reduce_max(where(greater(mask, number(0)), x, none), axes);
    return where(greater(largest, none), largest, number(0));  // an example without steps gives 0
  }
  if (kind == "sum") return reduce_sum(x, axes);
  const double p = options.number("p");
  const auto power = [&](Value base, double exponent) { return graph.apply("pow", {base, number(exponent)}); };
  // Away from 0, where the root has no slope.
  return power(reduce_sum(power(abs(x), p), axes) + 1e-12, 1 / p);
}

std::vector<Value> build_global_pool(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  if (x.rank() < 3) context.fail("needs channels and positions to pool over", x.rank() < 2 ? "a number" : example_text(x));
  std::vector<int64_t> axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const Value y = pooled(context, x, axes);
  context.set_mask(y, {});  // as many channels as there were steps are no steps
  return {y};
}

}  // namespace

extern const LayerDef layer_global_pool;
const LayerDef layer_global_pool{.name = "global_pool",
                                 .stem = "pool",
                                 .doc =
                                     "One number for each channel: the average, maximum, sum or p-norm over all positions, of a sequence "
                                     "with a length or mask over its steps.",
                                 .example = R"({"type": "global_pool", "kind": "pnorm", "p": 3})",
                                 .example_input = "[3, 4, 2]",
                                 .schema = layer_schema(kGlobalPoolOptions, kGlobalPoolPositional),
                                 .build = build_global_pool};

}  // namespace perigee
