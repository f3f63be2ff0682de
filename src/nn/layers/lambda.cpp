#include <algorithm>
#include <map>

#include "src/graph/op.h"
#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr size_t kMaxOps = 10000;
constexpr size_t kMaxOperands = 64;

constexpr Option kOptions[] = {
    {"inputs", "list of names", nullptr, "what the program calls the layer's inputs"},
    {"program", "list of {op, in, out, attrs}", nullptr, "ops in order; `in` are names or numbers, `out` a name or a list of them"},
    {"outputs", "list of names", nullptr, "values that leave"},
    {"parameters", "list of {name, shape, init, role}", "[]", "trained tensors that the program names; role: weight, bias or gain"},
};

const OpDef& allowed_op(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const OpDef* op : all_ops()) {
    if (op->internal) continue;
    if (name == op->name) return *op;
    known.push_back(op->name);
  }
  throw Error(ErrorKind::model,
              {.where = where, .what = "there is no op '" + name.substr(0, 100) + "'", .hint = nearest_hint(name, known)});
}

// Runs a traced program on values of the graph. The program may come from anywhere: names, counts and ops are checked as they come.
class Replay {
 public:
  Replay(LayerContext& context, std::span<const Value> inputs) : context_(context) {
    const std::vector<std::string> names = context.options().string_list("inputs");
    if (names.size() != inputs.size())
      context.fail("the function takes another number of inputs", std::to_string(inputs.size()), std::to_string(names.size()));
    for (size_t i = 0; i < names.size(); ++i) define(names[i], inputs[i], context.options().where());
  }

  // Initialised as the description says, or zero; `init` is the name of an initialiser or an object.
  void parameters(const Json* list) {
    if (list == nullptr || list->is_null() || (list->is_object() && list->as_object().empty())) return;
    if (!list->is_array() || list->as_array().size() > kMaxOperands)
      context_.options().fail("parameters", "must be a list", list->type_name(), "at most " + std::to_string(kMaxOperands) + " objects");
    for (size_t i = 0; i < list->as_array().size(); ++i) {
      const Config given = context_.options().element(list->as_array()[i], "parameter " + std::to_string(i + 1));
      const std::string name = given.string("name"), role = given.string("role", "weight");
      if (role != "weight" && role != "bias" && role != "gain") given.fail("role", "is unknown", role, "weight, bias or gain");
      std::vector<int64_t> dims;
      const Json* shape = given.raw("shape");
      if (shape == nullptr || !shape->is_array()) given.fail("shape", "must be a list of sizes");
      for (const Json& dim : shape->as_array()) {
        if (!dim.is_int() || dim.as_int() < 1) given.fail("shape", "must be a list of sizes", dim.dump());
        dims.push_back(dim.as_int());
      }
      const Shape of(dims);
      const int64_t outputs = dims.empty() ? 1 : dims[0];
      const Json* init = given.raw("init");
      define(name,
             context_.parameter(name, of,
                                role == "weight" ? ParameterRole::weight
                                : role == "bias" ? ParameterRole::bias
                                                 : ParameterRole::gain,
                                of.elements() / outputs, outputs, init ? *init : Json("zeros")),
             given.where());
      given.reject_unread();
    }
  }

  void run(const Json& program) {
    const size_t count = program.as_array().size();
    if (count > kMaxOps)
      context_.options().fail("program", "is too long", std::to_string(count) + " ops", "at most " + std::to_string(kMaxOps));
    for (size_t i = 0; i < count; ++i) step(context_.options().element(program.as_array()[i], "op " + std::to_string(i + 1)));
  }

  Value value(const std::string& name, const std::string& where) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [each, unused] : values_)
      if (known.size() < 1000) known.push_back(each);
    throw Error(
        ErrorKind::model,
        {.where = where, .what = "there is no value '" + name.substr(0, 100) + "' at this point", .hint = nearest_hint(name, known)});
  }

 private:
  void define(const std::string& name, Value value, const std::string& where) {
    if (!values_.emplace(name, value).second)
      throw Error(ErrorKind::model, {.where = where, .what = "the name '" + name.substr(0, 100) + "' is given twice"});
  }

  Value number(double value) { return context_.graph().constant(value, {context_.dtype(), Shape()}); }

  void step(const Config& op) {
    const OpDef& def = allowed_op(op.string("op"), op.where());
    const Json* attrs = op.raw("attrs");
    const Json none = Json::object();
    // A Lua table without entries may be written as an empty list.
    if (attrs == nullptr || attrs->is_null() || (attrs->is_array() && attrs->as_array().empty())) attrs = &none;
    if (!attrs->is_object()) op.fail("attrs", "must be an object", attrs->type_name());
    std::vector<Value> results;
    if (std::string_view(def.name) == "full") {
      results.push_back(number(Config(*attrs, op.where()).number("value")));
      op.raw("in");
    } else {
      const std::vector<Value> in = operands(op);
      try {
        results = context_.graph().apply_all(def.name, in, *attrs);
      } catch (const Error& error) {
        // The graph names the layer; say which op of the program it was.
        Error::Parts parts = error.parts();
        parts.where = op.where() + ": '" + def.name + "'";
        throw Error(error.kind(), std::move(parts));
      }
    }
    const std::vector<std::string> names = op.string_list("out");
    if (names.empty() || names.size() > results.size())
      op.fail("out", "must name the results", std::to_string(names.size()), "1 to " + std::to_string(results.size()));
    for (size_t i = 0; i < names.size(); ++i) define(names[i], results[i], op.where());
    op.reject_unread();
  }

  std::vector<Value> operands(const Config& op) {
    std::vector<Value> values;
    const Json* in = op.raw("in");
    if (in == nullptr || !in->is_array()) op.fail("in", "must be a list of names or numbers");
    if (in->as_array().size() > kMaxOperands)
      op.fail("in", "is too long", std::to_string(in->as_array().size()), "at most " + std::to_string(kMaxOperands));
    for (const Json& item : in->as_array()) {
      if (item.is_string()) values.push_back(value(item.as_string(), op.where()));
      else if (item.is_number()) values.push_back(number(item.as_number()));
      else op.fail("in", "must be a list of names or numbers", item.type_name());
    }
    return values;
  }

  LayerContext& context_;
  std::map<std::string, Value> values_;
};

std::vector<Value> build(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Json* program = options.raw("program");
  static const Json kEmpty = Json::array();
  if (program == nullptr || (program->is_object() && program->as_object().empty())) program = &kEmpty;
  if (!program->is_array()) options.fail("program", "must be a list of ops", program->type_name());
  Replay replay(context, inputs);
  replay.parameters(options.raw("parameters"));
  replay.run(*program);
  std::vector<Value> outputs;
  for (const std::string& name : options.string_list("outputs")) {
    outputs.push_back(replay.value(name, options.where()));
    if (outputs.back().rank() == 0 || outputs.back().shape()[0] != inputs[0].shape()[0])
      context.fail("the function's result has lost the batch, dimension 0", outputs.back().shape().text(),
                   std::to_string(inputs[0].shape()[0]) + " x ...", "reduce over dimensions from 1 on");
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
    .schema = layer_schema(kOptions),
    .max_inputs = -1,
    .build = build};

}  // namespace perigee
