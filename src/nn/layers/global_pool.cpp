#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr const char* kPositional[] = {"kind"};
constexpr Option kOptions[] = {{"kind", "name", "average", "what becomes of the positions", {}, {"average", "max", "sum", "pnorm"}},
                               {"p", "number", "2", "the power of pnorm", {1, 100}}};

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  const Value x = inputs[0];
  if (x.rank() < 3)
    context.fail("needs channels and positions to pool over",
                 x.rank() < 2 ? "a number" : x.shape().text().substr(x.shape().text().find('x') + 1));
  std::vector<int64_t> axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const Config& options = context.options();
  const std::string kind = options.choice("kind");
  if (kind == "average") return {reduce_mean(x, axes)};
  if (kind == "max") return {reduce_max(x, axes)};
  if (kind == "sum") return {reduce_sum(x, axes)};
  const double p = options.number("p");
  const auto power = [&](Value base, double exponent) {
    return context.graph().apply("pow", {base, context.graph().constant(exponent, {x.dtype(), Shape()})});
  };
  // Away from 0, where the root has no slope.
  return {power(reduce_sum(power(abs(x), p), axes) + 1e-12, 1 / p)};
}

}  // namespace

extern const LayerDef layer_global_pool;
const LayerDef layer_global_pool{.name = "global_pool",
                                 .stem = "pool",
                                 .doc = "One number for each channel: the average, maximum, sum or p-norm over all positions.",
                                 .example = R"({"type": "global_pool", "kind": "pnorm", "p": 3})",
                                 .example_input = "[3, 4, 2]",
                                 .schema = layer_schema(kOptions, kPositional),
                                 .build = build};

}  // namespace perigee
