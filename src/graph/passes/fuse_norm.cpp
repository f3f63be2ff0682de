#include "src/graph/passes/fuse_norm.h"

#include <cassert>
#include <map>
#include <vector>

#include "src/graph/op.h"

namespace perigee {
namespace {

class NormFuser {
 public:
  explicit NormFuser(const Graph& graph) : graph_(graph), fused_into_(graph.nodes().size(), -1), moved_(graph.nodes().size(), -1) {
    for (const Node& node : graph.nodes())
      for (const ValueId& id : node.inputs)
        if (id.node >= 0) users_[id].push_back(node.id);
    for (const NamedValue& output : graph.outputs()) users_[output.value].push_back(-1);
    for (const Assignment& assignment : graph.assignments()) users_[assignment.value].push_back(-1);
  }

  Graph run() {
    // The last one first: of two normalisations that are added, the later one takes the other's result as its residual.
    for (size_t i = graph_.nodes().size(); i-- > 0;)
      if (graph_.nodes()[i].op->residual >= 0) find_chain(graph_.nodes()[i]);
    for (const Tensor& constant : graph_.constants()) result_.add_constant(constant);
    for (const Node& node : graph_.nodes()) emit(node.id);
    for (const Leaf& leaf : graph_.leaves()) result_.add_leaf({leaf.name, leaf.kind, moved(leaf.value)});
    for (const Assignment& assignment : graph_.assignments()) result_.assign(assignment.state, Value(&result_, moved(assignment.value)));
    for (const NamedValue& output : graph_.outputs()) result_.output(output.name, Value(&result_, moved(output.value)));
    result_.set_scope(graph_.scope());
    return std::move(result_);
  }

 private:
  struct Chain {
    ValueId residual;
    const char* activation = nullptr;
  };

  const Node* only_user(ValueId id) const {
    const auto found = users_.find(id);
    if (found == users_.end() || found->second.size() != 1 || found->second[0] < 0) return nullptr;
    const Node& user = graph_.nodes()[static_cast<size_t>(found->second[0])];
    return fused_into_[static_cast<size_t>(user.id)] < 0 ? &user : nullptr;
  }

  void find_chain(const Node& norm) {
    if (attr_string(norm, "activation") != "none") return;
    Chain chain;
    ValueId last{norm.id, 0};
    const auto place = static_cast<size_t>(norm.op->residual);
    const bool has_residual = norm.inputs.size() > place && norm.inputs[place].node >= 0;
    const Node* next = only_user(last);
    if (next != nullptr && adds(*next) && !has_residual) {
      const ValueId other = next->inputs[0] == last ? next->inputs[1] : next->inputs[0];
      if (graph_.type(other) == norm.outputs[0] && other.node != norm.id) {
        chain.residual = other;
        fused_into_[static_cast<size_t>(next->id)] = norm.id;
        last = {next->id, 0};
        next = only_user(last);
      }
    }
    if (next != nullptr && takes_activation(*norm.op, next->op->activation)) {
      chain.activation = next->op->activation;
      fused_into_[static_cast<size_t>(next->id)] = norm.id;
      last = {next->id, 0};
    }
    if (last.node != norm.id) chains_[norm.id] = chain;
  }

  // Where a value of the old graph is in the new one; what was fused lives on as the normalisation's result.
  ValueId moved(ValueId id) const {
    if (id.node < 0) return id;
    const int into = fused_into_[static_cast<size_t>(id.node)];
    const int node = moved_[static_cast<size_t>(into < 0 ? id.node : into)];
    assert(node >= 0);
    return {node, into < 0 ? id.output : 0};
  }

  // Operands first: a residual may be computed after the normalisation that it is added to. The old graph has no cycles, and only the
  // residual is new among the operands; it does not depend on the result, which no other node reads, so this ends.
  void emit(int id) {
    if (const int into = fused_into_[static_cast<size_t>(id)]; into >= 0) id = into;
    if (moved_[static_cast<size_t>(id)] >= 0) return;
    Node node = graph_.nodes()[static_cast<size_t>(id)];
    if (const auto chain = chains_.find(id); chain != chains_.end()) {
      if (chain->second.residual.node >= 0) {
        const auto place = static_cast<size_t>(node.op->residual);
        node.inputs.resize(place + 1);
        node.inputs[place] = chain->second.residual;
      }
      if (chain->second.activation) node.attrs.set("activation", chain->second.activation);
    }
    for (const ValueId& input : node.inputs)
      if (input.node >= 0) emit(input.node);
    for (ValueId& input : node.inputs) input = moved(input);
    moved_[static_cast<size_t>(id)] = result_.append(std::move(node)).node;
  }

  const Graph& graph_;
  Graph result_;
  std::map<ValueId, std::vector<int>> users_;
  std::map<int, Chain> chains_;  // by the normalisation's node
  std::vector<int> fused_into_;  // the normalisation that does this node's work; -1: none
  std::vector<int> moved_;       // old node to new; -1: not yet
};

}  // namespace

Graph fuse_norm(const Graph& graph) { return NormFuser(graph).run(); }

}  // namespace perigee
