// fused: a chain of element-wise ops as one. Registers are numbered: first the operands, then the constants, then the results of the code,
// line by line.
#include "kernels/ops/fused.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/cuda/library/libraries.h"
#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"

namespace perigee {
namespace {

constexpr Option kCode = {"code", "list", nullptr, "[op, register, ...] by line"};
constexpr Option kConstants = {"constants", "list of numbers", "[]", "the registers behind the operands"};
constexpr Option kOutputs = {"outputs", "list of integers", nullptr, "registers", {.low = 0}};
constexpr Option kTypes = {"types", "list of names", "those that the code gives", "dtypes of the outputs"};
constexpr Option kProgram[] = {kCode, kConstants, kOutputs, kTypes};

struct Line {
  Elementwise op;
  std::vector<int> sources;
};

struct Program {
  int n_inputs = 0;
  std::vector<double> constants;
  std::vector<Line> code;
  std::vector<int> outputs;

  int first_result() const { return n_inputs + static_cast<int>(constants.size()); }
  int registers() const { return first_result() + static_cast<int>(code.size()); }
};

Elementwise elementwise_named(std::string_view name) {
#define PERIGEE_ENTRY(entry, arity, result) \
  if (name == #entry) return Elementwise::entry;
  PERIGEE_ELEMENTWISE_OPS(PERIGEE_ENTRY)
#undef PERIGEE_ENTRY
  assert(!"an element-wise op");
  return {};
}

const Json::Array& list(const Json& attrs, const Option& option) {
  static const Json::Array none;
  const Json* value = attrs.find(option.name);
  if (!value) return none;
  return value->as_array();
}

int register_number(const Json& value, int limit) {
  assert(value.as_int() >= 0 && value.as_int() < limit);
  return static_cast<int>(value.as_int());
}

Line parse_line(const Json& json, int limit) {
  const Json::Array& parts = json.as_array();
  Line line{elementwise_named(parts.at(0).as_string()), {}};
  for (size_t i = 1; i < parts.size(); ++i) line.sources.push_back(register_number(parts[i], limit));
  assert(static_cast<int>(line.sources.size()) == elementwise_arity(line.op));
  return line;
}

// Our own passes write programs, nobody else: what does not fit is their mistake.
Program parse(const Json& attrs, size_t n_inputs) {
  assert(n_inputs <= static_cast<size_t>(kFusedInputs));
  Program program{.n_inputs = static_cast<int>(n_inputs)};
  for (const Json& value : list(attrs, kConstants)) program.constants.push_back(value.as_number());
  for (const Json& value : list(attrs, kCode)) program.code.push_back(parse_line(value, program.registers()));
  for (const Json& value : list(attrs, kOutputs)) program.outputs.push_back(register_number(value, program.registers()));
  assert(program.constants.size() <= kFusedConstants && program.code.size() <= kFusedInstructions);
  assert(!program.outputs.empty() && program.outputs.size() <= kFusedOutputs);
  for (int output : program.outputs) assert(output >= program.first_result());
  return program;
}

// A temporary for each result: taken at its line, free again after its last use. False when there are not enough.
bool place_registers(const Program& program, FusedParams& params) {
  std::vector<int> last_use(static_cast<size_t>(program.registers()), -1);
  for (size_t k = 0; k < program.code.size(); ++k)
    for (int source : program.code[k].sources) last_use[static_cast<size_t>(source)] = static_cast<int>(k);
  for (int output : program.outputs) last_use[static_cast<size_t>(output)] = static_cast<int>(program.code.size());
  std::vector<int> place(static_cast<size_t>(program.registers()), -1);
  for (int i = 0; i < program.n_inputs; ++i) place[static_cast<size_t>(i)] = i;
  for (int i = program.n_inputs; i < program.first_result(); ++i) place[static_cast<size_t>(i)] = kFusedConstantBase + i - program.n_inputs;
  bool taken[kFusedTemporaries] = {};
  const auto release = [&](int number, int line) {
    const int at = place[static_cast<size_t>(number)] - kFusedTemporaryBase;
    if (at >= 0 && last_use[static_cast<size_t>(number)] == line) taken[at] = false;
  };
  for (size_t k = 0; k < program.code.size(); ++k) {
    const Line& line = program.code[k];
    FusedInstruction& step = params.code[k];
    step.op = line.op;
    for (size_t s = 0; s < 3; ++s)  // operands that the op lacks read the first one
      step.sources[s] = static_cast<uint8_t>(place[static_cast<size_t>(line.sources[s < line.sources.size() ? s : 0])]);
    for (int source : line.sources) release(source, static_cast<int>(k));
    int free = 0;
    while (free < kFusedTemporaries && taken[free]) ++free;
    if (free == kFusedTemporaries) return false;
    const int number = program.first_result() + static_cast<int>(k);
    step.target = static_cast<uint8_t>(kFusedTemporaryBase + free);
    place[static_cast<size_t>(number)] = step.target;
    taken[free] = last_use[static_cast<size_t>(number)] >= 0;
  }
  for (size_t o = 0; o < program.outputs.size(); ++o)
    params.outputs[o] = static_cast<uint8_t>(place[static_cast<size_t>(program.outputs[o])]);
  return true;
}

FusedParams make_params(const Program& program) {
  FusedParams params{};
  const bool placed = place_registers(program, params);
  assert(placed);
  for (size_t i = 0; i < program.constants.size(); ++i) params.constants[i] = program.constants[i];
  params.n_inputs = static_cast<uint8_t>(program.n_inputs);
  params.n_constants = static_cast<uint8_t>(program.constants.size());
  params.n_instructions = static_cast<uint8_t>(program.code.size());
  params.n_outputs = static_cast<uint8_t>(program.outputs.size());
  return params;
}

// The dtype in which an output is stored whose value is a `computed`: that, or a 16-bit float.
Dtype stored_type(const Json& name, Dtype computed) {
  const Dtype dtype = dtype_from_name(name.as_string());
  assert(dtype == computed || (is_floating(computed) && is_half(dtype)));
  return dtype;
}

std::vector<Type> infer_fused(const OpCall& call) {
  const Program program = parse(call.attrs, call.inputs.size());
  make_params(program);
  Shape shape;
  Dtype real = Dtype::f32;
  for (const Type& type : call.inputs) {
    assert(type.dtype != Dtype::i32 && type.dtype != Dtype::i64);
    if (type.dtype == Dtype::f64) real = Dtype::f64;
    shape = broadcast(shape, type.shape);
  }
  const Json::Array& types = list(call.attrs, kTypes);
  assert(types.empty() || types.size() == program.outputs.size());
  std::vector<Type> result;
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const Line& line = program.code[static_cast<size_t>(program.outputs[o] - program.first_result())];
    result.push_back({elementwise_gives_truth(line.op) ? Dtype::boolean : real, shape});
    if (!types.empty()) result.back().dtype = stored_type(types[o], result.back().dtype);
  }
  return result;
}

// The rule of each instruction in turn: a chain of linear ones keeps partial sums.
Sliced sliced_fused(const OpCall& call, std::span<const Sliced> inputs) {
  const Program program = parse(call.attrs, call.inputs.size());
  std::vector<Type> types(call.inputs.begin(), call.inputs.end());
  std::vector<Sliced> values(inputs.begin(), inputs.end());
  for (size_t i = 0; i < program.constants.size(); ++i) {
    types.push_back({Dtype::f32, {}});
    values.push_back(Sliced::whole);
  }
  static constexpr bool kPresent[3] = {true, true, true};
  const Json none = Json::object();
  for (const Line& line : program.code) {
    std::vector<Type> sources;
    std::vector<Sliced> sliced;
    Shape shape;
    for (int source : line.sources) {
      sources.push_back(types[static_cast<size_t>(source)]);
      sliced.push_back(values[static_cast<size_t>(source)]);
      shape = broadcast(shape, sources.back().shape);
    }
    const OpDef& op = op_named(elementwise_name(line.op));
    values.push_back(op.sliced({sources, {kPresent, sources.size()}, none}, sliced));
    types.push_back({Dtype::f32, shape});
  }
  const Sliced first = values[static_cast<size_t>(program.outputs[0])];
  for (int output : program.outputs)
    if (values[static_cast<size_t>(output)] != first) return Sliced::mixed;
  return first;
}

// Unfolds the program into its ops and differentiates those.
std::vector<Value> fused_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  const Program program = parse(node.attrs, node.inputs.size());
  std::vector<Value> registers, targets;
  Dtype real = Dtype::f32;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    registers.push_back(node.in(graph, i));
    targets.push_back(registers.back());
    if (registers.back().dtype() == Dtype::f64) real = Dtype::f64;
  }
  for (double constant : program.constants) registers.push_back(graph.constant(constant, {real, Shape()}));
  for (const Line& line : program.code) {
    std::vector<Value> sources;
    for (int source : line.sources) {
      sources.push_back(registers[static_cast<size_t>(source)]);
      const bool condition = line.op == Elementwise::where && sources.size() == 1;
      const bool logic = line.op == Elementwise::logical_and || line.op == Elementwise::logical_or || line.op == Elementwise::logical_not;
      const auto cast_to = [&](Dtype dtype) {
        Json attrs = Json::object();
        attrs.set("dtype", dtype_name(dtype));
        sources.back() = graph.apply("cast", {sources.back()}, std::move(attrs));
      };
      if (condition && sources.back().dtype() != Dtype::boolean) cast_to(Dtype::boolean);
      if (!condition && !logic && sources.back().dtype() != real) cast_to(real);
    }
    registers.push_back(graph.apply(elementwise_name(line.op), sources));
  }
  std::vector<Value> result(node.inputs.size());
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const Value output = registers[static_cast<size_t>(program.outputs[o])];
    if (!grads[o] || output.shape() != grads[o].shape()) continue;
    const Value grad = grads[o].dtype() == output.dtype() ? grads[o] : cast(grads[o], output.dtype());
    const std::vector<Value> flows = gradients(graph, output, grad, targets);
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!flows[i]) continue;
      result[i] = result[i] ? graph.apply("add", {result[i], flows[i]}) : flows[i];
    }
  }
  return result;
}

size_t fused_params(const OpCall& call, void* out) {
  const FusedParams params = make_params(parse(call.attrs, call.inputs.size()));
  std::memcpy(out, &params, sizeof params);
  return sizeof params;
}

double fused_flops(const OpCall& call) {
  return static_cast<double>(list(call.attrs, kCode).size()) * static_cast<double>(infer_fused(call)[0].shape.elements());
}

constexpr OpDef kFusedOps[] = {{.name = "fused",
                                .doc = "A chain of element-wise ops in one pass: code, constants, outputs.",
                                .attributes = {.options = kProgram},
                                .min_inputs = 1,
                                .max_inputs = kFusedInputs,
                                .infer = infer_fused,
                                .vjp = fused_vjp,
                                .sliced = sliced_fused,
                                .params = fused_params,
                                .flops = fused_flops,
                                .internal = true,
                                .elementwise = true,
                                .library = CudaLibrary::nvrtc}};

}  // namespace

extern const OpList ops_fused;
const OpList ops_fused = op_list(kFusedOps);

}  // namespace perigee
