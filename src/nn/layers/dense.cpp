#include "src/graph/autodiff.h"
#include "src/graph/op.h"
#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kDensePositional[] = {"out"};
constexpr Option kDenseOptions[] = {
    {"out", "integer", nullptr, "number of outputs", {1}},
    kBiasOption,
    {"over",
     "name",
     "example",
     "what makes one row of inputs: a whole example, or each step of a sequence, as time_distributed has it for any layer",
     {},
     {"example", "steps"}},
    {"tied", "name", "", "an embedding or dense layer in front of this one whose weight [out, inputs] is used here too"},
    {"transposed", "boolean", "false", "the weight of `tied` is [inputs, out]: that of the encoder, in an autoencoder's decoder"},
    {"contractive",
     "number or schedule",
     "0",
     "factor, in training, of the sum of squares of the outputs' derivatives by the inputs",
     {0, 1e9}},
    kActivationOption};

// The weight is [out, in], as in PyTorch.
Value weight(LayerContext& context, int64_t in, int64_t out) {
  const std::string tied = context.options().string("tied", "");
  const bool transposed = context.options().boolean("transposed");
  if (tied.empty() && transposed) context.options().fail("transposed", "is about the weight of another layer", "true", "tied = \"dense1\"");
  if (tied.empty()) return context.parameter("weight", Shape{out, in}, ParameterRole::weight, in, out, "xavier");
  const Value shared = context.parameter_of(tied, "weight");
  const Shape wanted = transposed ? Shape{in, out} : Shape{out, in};
  if (shared.shape() != wanted) {
    const bool matrix = shared.rank() == 2, turned = matrix && shared.shape()[0] == wanted[1] && shared.shape()[1] == wanted[0];
    const bool fits = matrix && shared.shape()[transposed ? 0 : 1] == in;
    std::string fix = "leave tied out";
    if (turned) fix += std::string(", or write transposed = ") + (transposed ? "false" : "true");
    else if (fits) fix += ", or give this layer " + std::to_string(shared.shape()[transposed ? 1 : 0]) + " outputs";
    context.options().fail("tied", "names '" + tied + "', whose weight does not fit", shared.shape().text(), wanted.text(), fix);
  }
  return transposed ? transpose(shared, {1, 0}) : shared;
}

// Rifai et al. 2011: the squared Frobenius norm of d y / d x, with y = f(a) and a = W x + b. f works number by number, so that the derivative
// of output j by input i is f'(a_j) W_ji.
void add_contraction(LayerContext& context, Value a, Value y, Value weight) {
  Graph& graph = context.graph();
  for (int i = a.id().node + 1; i <= y.id().node; ++i)
    if (const Node& node = graph.nodes()[static_cast<size_t>(i)]; !node.inputs.empty() && !node.op->elementwise)
      context.options().fail("contractive", "needs an activation that takes each number by itself", node.op->name, "sigmoid or tanh");
  const Value slope = gradients(graph, y, ones_like(y), std::span(&a, 1)).at(0);
  const Value rows = reshape(reduce_sum(square(weight), {1}), Shape{1, weight.shape()[0]});
  context.add_loss(reduce_sum(square(slope) * rows, {1}), "contractive");
}

// An image is flattened first.
std::vector<Value> build_dense(LayerContext& context, std::span<const Value> inputs) {
  const bool steps = context.options().choice("over") == "steps";
  if (steps) require_steps(context, inputs[0], "leave over out");
  if (!steps) refuse_mask(context, context.mask(inputs[0]), std::string(kPoolFirst) + ", or take over = \"steps\" for each step");
  const Value x = steps ? steps_first(inputs[0]) : flatten(inputs[0]);
  const int64_t in = x.shape().at(-1), out = context.options().integer_in("out", 1, int64_t{1} << 24);
  std::vector<Value> operands{x, weight(context, in, out)};
  if (context.options().boolean("bias", true)) operands.push_back(context.parameter("bias", Shape{out}, ParameterRole::bias, in, out, 0.0));
  const Value a = linear(x, operands[1], operands.size() > 2 ? operands[2] : Value()), y = finish(context, steps ? features_first(a) : a);
  const Json* given = context.options().raw("contractive");
  const bool contractive = given != nullptr && (!given->is_number() || given->as_number() > 0);
  if (contractive && steps) context.options().fail("contractive", "is for whole examples", "over = \"steps\"", "over = \"example\"");
  if (contractive && context.training()) add_contraction(context, a, y, operands[1]);
  return {y};
}

StepUse dense_step_use(const Config& options, std::span<const Value>) {
  return options.choice("over") == "steps" ? StepUse::each : StepUse::mixed;
}

}  // namespace

extern const LayerDef layer_dense;
const LayerDef layer_dense{.name = "dense",
                           .doc = "Each output is a learned weighted sum of all inputs. Flattens what is not flat.",
                           .example = R"({"type": "dense", "out": 5, "activation": "sigmoid"})",
                           .example_input = "[7]",
                           .schema = layer_schema(kDenseOptions, kDensePositional),
                           .build = build_dense,
                           .step_use = dense_step_use};

}  // namespace perigee
