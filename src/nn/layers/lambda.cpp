#include <algorithm>

#include "src/nn/layers/common.h"
#include "src/nn/program.h"

namespace perigee {
namespace {

constexpr size_t kMostParameters = 64;

constexpr Option kLambdaLayerOptions[] = {
    {"inputs", "list of names", nullptr, "what the program calls the layer's inputs"},
    {"program", "list of {op, in, out, attrs}", nullptr, "ops in order; `in` are names or numbers, `out` a name or a list of them"},
    {"outputs", "list of names", nullptr, "values that leave"},
    {"parameters", "list of {name, shape, init, role}", "[]",
     "trained tensors that the program names; in `shape` sizes of inputs may stand; role: weight, bias or gain"},
};

bool names_batch(const Json& size) {
  if (const Json* axis = size.find("axis"); axis != nullptr && size.find("size") != nullptr) return *axis == Json(0);
  if (!size.is_object()) return false;
  for (const auto& [key, operands] : size.as_object())
    if (operands.is_array() && std::ranges::any_of(operands.as_array(), names_batch)) return true;
  return false;
}

std::vector<int64_t> parameter_sizes(const Config& given, const Program& program) {
  const Json* shape = given.raw("shape");
  if (shape == nullptr || !shape->is_array()) given.fail("shape", "must be a list of sizes");
  std::vector<int64_t> dims;
  for (const Json& dim : shape->as_array()) {
    if (names_batch(dim)) given.fail("shape", "has the size of the batch, which changes", "x.shape[1]", "sizes of axes from 2 on");
    const Json size = program.resolved(dim, given);
    if (!size.is_int() || size.as_int() < 1) given.fail("shape", "must be a list of sizes", size.dump());
    dims.push_back(size.as_int());
  }
  return dims;
}

// Initialised as the description says, or zero; `init` is the name of an initialiser or an object.
void declare_parameters(LayerContext& context, Program& program) {
  const Json* list = context.options().raw("parameters");
  if (list == nullptr || list->is_null() || (list->is_object() && list->as_object().empty())) return;
  if (!list->is_array() || list->as_array().size() > kMostParameters)
    context.options().fail("parameters", "must be a list", list->type_name(), "at most " + std::to_string(kMostParameters) + " objects");
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    const Config given = context.options().element(list->as_array()[i], "parameter " + std::to_string(i + 1));
    const std::string name = given.string("name"), role = given.string("role", "weight");
    if (role != "weight" && role != "bias" && role != "gain") given.fail("role", "is unknown", role, "weight, bias or gain");
    const Shape of(parameter_sizes(given, program));
    const int64_t outputs = of.rank() == 0 ? 1 : of[0];
    const Json* init = given.raw("init");
    const ParameterRole kind = role == "weight" ? ParameterRole::weight : role == "bias" ? ParameterRole::bias : ParameterRole::gain;
    program.define(name, context.parameter(name, of, kind, of.elements() / outputs, outputs, init ? *init : Json("zeros")), given.where());
    given.reject_unread();
  }
}

std::vector<Value> build_lambda(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  Program program(context.graph(), context.dtype());
  const std::vector<std::string> names = options.string_list("inputs");
  if (names.size() != inputs.size())
    context.fail("the function takes another number of inputs", std::to_string(inputs.size()), std::to_string(names.size()));
  for (size_t i = 0; i < names.size(); ++i) program.define(names[i], inputs[i], options.where());
  declare_parameters(context, program);
  program.run(options);
  std::vector<Value> outputs;
  for (const std::string& name : options.string_list("outputs")) {
    outputs.push_back(program.value(name, options.where()));
    if (outputs.back().rank() == 0 || outputs.back().shape()[0] != inputs[0].shape()[0])
      context.fail("the function's result has lost the batch, dimension 0", outputs.back().shape().text(),
                   std::to_string(inputs[0].shape()[0]) + " x ...", "reduce over axes from 2 on; axis 1 is the batch");
  }
  if (outputs.empty()) options.fail("outputs", "must name at least one value");
  return outputs;
}

}  // namespace

extern const LayerDef layer_lambda;
const LayerDef layer_lambda{
    .name = "lambda",
    .doc = "A function that was traced into ops: pg.lambda(function(x) return x * pg.sigmoid(x) end).",
    .example =
        R"({"type": "lambda", "inputs": ["x"], "program": [{"op": "sigmoid", "in": ["x"], "out": "t1"}, {"op": "mul", "in": ["x", "t1"], "out": "t2"},
      {"op": "add", "in": ["t2", 0.5], "out": "t3", "attrs": {}}], "outputs": ["t3"]})",
    .example_input = "[4]",
    .schema = layer_schema(kLambdaLayerOptions),
    .max_inputs = -1,
    .build = build_lambda};

}  // namespace perigee
