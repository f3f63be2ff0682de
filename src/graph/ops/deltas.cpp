// Slopes of rows of numbers along their steps.
#include "kernels/ops/deltas.h"

#include <cstring>

#include "src/graph/op_list.h"
#include "src/graph/ops/step_counts.h"

namespace perigee {
namespace {

constexpr Option kDeltasReach = {"reach", "integer", "2", "steps on each side that a slope looks at", {1, 100}};
constexpr Option kDeltasOrder = {"order", "integer", "1", "1: slopes; 2: second derivatives", {1, 2}};
constexpr Option kDeltasPolynomial = {"polynomial", "boolean", "false",
                                      "of a polynomial through the values, else the ends are repeated and slopes taken of slopes"};
constexpr Option kDeltasAdjoint = {"adjoint", "boolean", "false", "the gradient"};
constexpr Option kDeltasAttributes[] = {kDeltasReach, kDeltasOrder, kDeltasPolynomial, kDeltasAdjoint};

std::vector<Type> infer_deltas(const OpCall& call) {
  check_step_counts(call, call.inputs[0], 1, "deltas takes sequences");
  return {call.inputs[0]};
}

size_t deltas_params(const OpCall& call, void* out) {
  DeltasParams values;
  values.reach = attr_int(call.attrs, kDeltasReach), values.order = static_cast<int32_t>(attr_int(call.attrs, kDeltasOrder));
  values.polynomial = attr_bool(call.attrs, kDeltasPolynomial), values.adjoint = attr_bool(call.attrs, kDeltasAdjoint);
  std::memcpy(out, &values, sizeof values);
  return sizeof values;
}

std::vector<Value> deltas_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  Json back = node.attrs.is_null() ? Json::object() : node.attrs;
  back.set("adjoint", !attr_bool(node, "adjoint"));
  std::vector<Value> operands{grads[0]};
  if (node.inputs.size() > 1) operands.push_back(node.in(graph, 1));
  std::vector<Value> flows{graph.apply("deltas", operands, std::move(back))};
  flows.resize(node.inputs.size());
  return flows;
}

double deltas_flops(const OpCall& call) {
  return static_cast<double>(call.inputs[0].shape.elements()) * static_cast<double>(4 * attr_int(call.attrs, kDeltasReach) + 2);
}

constexpr OpDef kDeltasOps[] = {
    {.name = "deltas",
     .doc = "Slope of each row of [n, rows, steps] at each step. Optional: how many steps of each example there are [n].",
     .attributes = {.options = kDeltasAttributes},
     .max_inputs = 2,
     .infer = infer_deltas,
     .vjp = deltas_vjp,
     .sliced = sliced_alike,
     .params = deltas_params,
     .flops = deltas_flops,
     .operand_dtypes = OperandDtypes::labels},
};

}  // namespace

extern const OpList ops_deltas;
const OpList ops_deltas = op_list(kDeltasOps);

}  // namespace perigee
