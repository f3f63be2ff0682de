#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Value build_center(Graph& graph, const Config& options, Value output, Value target) {
  return reduce_sum(flatten_example(output * class_distribution(graph, options, output, target)), {1}) * 0.5;
}

}  // namespace

extern const LossDef loss_center;
const LossDef loss_center{.name = "center",
                          .doc =
                              "Half the squared distance from the centre of the class that is right, of the layer centers. `weight` of "
                              "an output's loss is its factor beside the classifier's (Wen et al. 2016).",
                          .build = build_center,
                          .example = R"({"type": "center"})",
                          .example_output = "[4]",
                          .example_target = "class"};

}  // namespace perigee
