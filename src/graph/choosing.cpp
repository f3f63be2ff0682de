#include "src/graph/choosing.h"

#include <cassert>

#include "src/graph/op.h"

namespace perigee {
namespace {

// The number of a scalar constant; false when the value is none.
bool constant_number(const Graph& graph, ValueId id, double* number) {
  const Node& node = graph.node(id);
  if (node.op->converts) return constant_number(graph, node.inputs[0], number);
  const Json* value = node.op->constant ? node.attrs.find("value") : nullptr;
  if (value == nullptr || !value->is_number()) return false;
  *number = value->as_number();
  return true;
}

// Follows a value back to an input that it is a copy of, and adds up in `low` what the input is larger by. Null: it is computed.
const Node* input_behind(const Graph& graph, ValueId id, int64_t* low) {
  for (;;) {
    const Node& node = graph.node(id);
    double number = 0;
    if (node.op->leaf == LeafOp::input) return &node;
    const Terms terms = node.op->terms;
    if (node.op->converts || node.op->reshapes || node.op->permutes) {
      id = node.inputs[0];
    } else if (terms.first == 1 && terms.second != 0 && constant_number(graph, node.inputs[1], &number)) {
      *low -= static_cast<int64_t>(terms.second * number);
      id = node.inputs[0];
    } else {
      return nullptr;
    }
  }
}

template <class T>
int64_t choosing_outside(const View& view, int64_t n, int64_t low, int64_t count) {
  const T* values = view.as<T>();
  const auto wrong = [&](T value) {
    if constexpr (std::is_floating_point_v<T>) return !(value > static_cast<T>(low - 1) && value < static_cast<T>(low + count));
    else return static_cast<uint64_t>(static_cast<int64_t>(value)) - static_cast<uint64_t>(low) >= static_cast<uint64_t>(count);
  };
  bool any = false;  // without a branch in the loop, which then takes no time to speak of
  for (int64_t i = 0; i < n; ++i) any |= wrong(values[i]);
  for (int64_t i = 0; any && i < n; ++i)
    if (wrong(values[i])) return i;
  return -1;
}

}  // namespace

std::vector<ChoosingInput> choosing_inputs(const Graph& graph) {
  std::vector<ChoosingInput> found;
  for (const Node& node : graph.nodes()) {
    if (!node.op->chooses) continue;
    const OperandTypes types(graph, node);
    const ChoosingOperand choice = node.op->chooses(types.call());
    if (choice.operand < 0) continue;
    ChoosingInput input{
        .count = choice.count, .op = node.op->name, .labels = node.op->operand_dtypes == OperandDtypes::labels, .scope = node.scope};
    const Node* leaf = input_behind(graph, node.inputs[static_cast<size_t>(choice.operand)], &input.low);
    if (!leaf) continue;
    for (const Leaf& each : graph.leaves())
      if (each.value.node == leaf->id) input.name = each.name;
    found.push_back(std::move(input));
  }
  return found;
}

std::vector<RowGradient> row_gradients(const Graph& graph) {
  std::vector<RowGradient> found;
  for (const NamedValue& output : graph.outputs()) {
    const Node& node = graph.node(output.value);
    if (!node.op->scatters) continue;
    const Json* axis = node.attrs.find("axis");
    if (axis == nullptr || axis->as_number() != 0) continue;
    RowGradient gradient{.output = output.name};
    const Node* leaf = input_behind(graph, node.inputs[1], &gradient.low);
    if (!leaf) continue;
    for (const Leaf& each : graph.leaves())
      if (each.value.node == leaf->id) gradient.input = each.name;
    found.push_back(std::move(gradient));
  }
  return found;
}

int64_t first_outside(const View& view, int64_t n, int64_t low, int64_t count) {
  assert(view.contiguous());
  switch (view.dtype) {
    case Dtype::i64: return choosing_outside<int64_t>(view, n, low, count);
    case Dtype::i32: return choosing_outside<int32_t>(view, n, low, count);
    case Dtype::u8: return choosing_outside<uint8_t>(view, n, low, count);
    case Dtype::f32: return choosing_outside<float>(view, n, low, count);
    case Dtype::f64: return choosing_outside<double>(view, n, low, count);
    default: return -1;
  }
}

}  // namespace perigee
