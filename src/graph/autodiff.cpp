#include "src/graph/autodiff.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

// Which nodes depend on one of `targets`.
std::vector<bool> dependents(const Graph& graph, std::span<const Value> targets) {
  std::vector<bool> depends(graph.nodes().size(), false);
  for (const Value& target : targets) depends[static_cast<size_t>(target.id().node)] = true;
  for (const Node& node : graph.nodes())
    for (const ValueId& input : node.inputs)
      if (input.node >= 0 && depends[static_cast<size_t>(input.node)]) depends[static_cast<size_t>(node.id)] = true;
  return depends;
}

// An op without a VJP because it is a gradient itself: leaving its derivative out would be wrong without a word.
void refuse_second_derivative(const Node& node) {
  if (!node.op->derivative) return;
  throw Error(ErrorKind::model, {.where = node.scope,
                                 .what = "op '" + std::string(node.op->name) + "' has no derivative",
                                 .hint = "the function differentiates a gradient that cannot be differentiated again"});
}

// The VJP of a node. An error names the op, as errors of appended ops do.
std::vector<Value> flows_of(Graph& graph, const Node& node, std::span<const Value> grads) {
  try {
    return node.op->vjp(graph, node, grads);
  } catch (const Error& error) {
    if (!error.parts().where.empty()) throw;
    throw error.within((node.scope.empty() ? "" : node.scope + ": ") + "op '" + node.op->name + "'");
  }
}

void accumulate(std::map<ValueId, Value>& sums, ValueId id, Value grad) {
  const auto [place, fresh] = sums.try_emplace(id, grad);
  if (!fresh) place->second = place->second + grad;
}

}  // namespace

std::vector<Value> gradients(Graph& graph, Value root, Value seed, std::span<const Value> targets) {
  return gradients(graph, std::span(&root, 1), std::span(&seed, 1), targets);
}

std::vector<Value> gradients(Graph& graph, std::span<const Value> roots, std::span<const Value> seeds, std::span<const Value> targets) {
  const std::vector<bool> depends = dependents(graph, targets);
  const std::string scope = graph.scope();
  std::map<ValueId, Value> sums;
  int last = -1;
  for (size_t i = 0; i < roots.size(); ++i) {
    assert(roots[i].shape() == seeds[i].shape());
    accumulate(sums, roots[i].id(), seeds[i]);
    last = std::max(last, roots[i].id().node);
  }
  for (int i = last; i >= 0; --i) {
    if (!depends[static_cast<size_t>(i)]) continue;
    const Node node = graph.nodes()[static_cast<size_t>(i)];  // a copy: the vector grows below
    if (node.inputs.empty()) continue;
    std::vector<Value> grads(node.outputs.size());
    bool any = false;
    for (size_t o = 0; o < grads.size(); ++o) {
      const auto found = sums.find({i, static_cast<int>(o)});
      if (found == sums.end()) continue;
      grads[o] = found->second;
      any = true;
    }
    if (!any) continue;
    if (!node.op->vjp) {
      refuse_second_derivative(node);
      continue;
    }
    graph.set_scope(node.scope);
    const std::vector<Value> flows = flows_of(graph, node, grads);
    assert(flows.size() <= node.inputs.size());
    for (size_t k = 0; k < flows.size(); ++k) {
      const ValueId input = node.inputs[k];
      if (!flows[k] || input.node < 0 || !depends[static_cast<size_t>(input.node)]) continue;
      if (!is_floating(graph.type(input).dtype)) continue;
      assert(flows[k].shape() == graph.type(input).shape);
      accumulate(sums, input, flows[k]);
    }
  }
  graph.set_scope(scope);
  std::vector<Value> result;
  for (const Value& target : targets) {
    const auto found = sums.find(target.id());
    result.push_back(found == sums.end() ? Value() : found->second);
  }
  return result;
}

std::string without_derivative(const Graph& graph, Value root, Value target) {
  const std::vector<bool> depends = dependents(graph, std::span(&target, 1));
  std::vector<bool> reached(graph.nodes().size(), false);
  if (depends[static_cast<size_t>(root.id().node)]) reached[static_cast<size_t>(root.id().node)] = true;
  for (int i = root.id().node; i > target.id().node; --i) {
    if (!reached[static_cast<size_t>(i)]) continue;
    const Node& node = graph.nodes()[static_cast<size_t>(i)];
    for (const ValueId& input : node.inputs) {
      if (input.node < 0 || !depends[static_cast<size_t>(input.node)]) continue;
      if (is_floating(graph.type(input).dtype) && !is_floating(node.outputs[0].dtype)) return node.op->name;
      reached[static_cast<size_t>(input.node)] = true;
    }
  }
  return {};
}

}  // namespace perigee
