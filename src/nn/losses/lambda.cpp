#include "src/nn/losses/common.h"
#include "src/nn/own_function.h"

namespace perigee {
namespace {

Value build_lambda_losse(Graph& graph, const Config& options, Value output, Value target) {
  return own_function(graph, options, output, target);
}

constexpr Option kLambdaLosseOptions[] = {
    {"inputs", "list of names", nullptr, "what the program calls the network's output and the target"},
    {"program", "list of {op, in, out, attrs}", nullptr, "ops in order, as of the layer lambda"},
    {"outputs", "list of names", nullptr, "the value that is the loss"},
    {"link", "name", "", "what makes predictions of outputs: \"softmax\", \"sigmoid\" or nothing", {}, {"", "softmax", "sigmoid"}}};

}  // namespace

extern const LossDef loss_lambda;
const LossDef loss_lambda{
    .name = "lambda",
    .doc =
        "A function of one's own, traced once: loss = function(outputs, targets) return ((outputs - targets) ^ 2):mean(2) end. It gives "
        "a value for each example, or a mean. Class numbers count from 1.",
    .schema = {.options = kLambdaLosseOptions},
    .build = build_lambda_losse,
    .example = R"({"type": "lambda", "inputs": ["outputs", "targets"], "program": [{"op": "sub", "in": ["outputs", "targets"], "out": "t1"},
      {"op": "mul", "in": ["t1", "t1"], "out": "t2"}], "outputs": ["t2"]})",
    .example_output = "[4]",
    .example_target = "real"};

}  // namespace perigee
