#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_cosine_proximity(Graph&, const Config& options, Value output, Value target) {
  const Value y = flatten_example(matched_target(options, output, target)), x = flatten_example(output);
  const auto length = [](Value v) { return sqrt(reduce_sum(square(v), {1}) + 1e-12); };
  return -(reduce_sum(x * y, {1}) / (length(x) * length(y)));
}

}  // namespace

extern const LossDef loss_cosine_proximity;
const LossDef loss_cosine_proximity{.name = "cosine_proximity",
                                    .doc = "Minus the cosine of output and target.",
                                    .build = build_cosine_proximity,
                                    .example = R"({"type": "cosine_proximity"})",
                                    .example_output = "[4]",
                                    .example_target = "real"};

}  // namespace perigee
