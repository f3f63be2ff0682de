#include "src/graph/passes/fuse_head.h"

#include <algorithm>
#include <optional>

#include "kernels/ops/linear_cross_entropy.h"
#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"

namespace perigee {
namespace {

// The op that stands for a head.
const OpDef& head_op() {
  static const OpDef& op = *std::ranges::find_if(all_ops(), [](const OpDef* each) { return !each->replaces.empty(); })[0];
  return op;
}

bool is_part(const Node& node, size_t i) { return node.op->name == std::string_view(head_op().replaces[i]); }

enum Part : size_t { kProduct, kLoss, kSlopes, kBack };  // in OpDef::replaces

struct Head {
  int product = -1, loss = -1, slopes = -1, back = -1;  // nodes, in this order in the graph
  bool has(int node) const { return node == product || node == loss || node == slopes || node == back; }
};

bool fits(const Graph& graph, const Node& product) {
  const Type &x = graph.type(product.inputs[0]), &weight = graph.type(product.inputs[1]);
  return is_part(product, kProduct) && x.dtype == Dtype::f32 && x.shape.rank() == 2 && weight.shape[0] <= kHeadClasses &&
         weight.shape.elements() <= kHeadWeights && weight.shape[1] % 4 == 0 && attr_string(product, "activation") == "none";
}

// The gradient by the layer below is one that the kernel knows the slope of: none, or that of an activation by its result.
bool known_slope(const Node& back, ValueId x) {
  if (back.inputs.size() < 3 || back.inputs[2].node < 0) return true;
  return back.inputs[2] == x && takes_activation(head_op(), attr_string(back, "activation").c_str());
}

// Whether an operand of the joined op comes of one of its results: there would be no order.
bool runs_in_a_circle(const Graph& graph, const Head& head) {
  std::vector<bool> behind(graph.nodes().size());
  bool circle = false;
  for (const Node& node : graph.nodes()) {
    // A constant has a value's shape and dtype, which are known; it does not wait for the value.
    for (const ValueId& id : node.inputs)
      if (!node.op->constant && id.node >= 0 && (behind[static_cast<size_t>(id.node)] || head.has(id.node)))
        behind[static_cast<size_t>(node.id)] = true;
    if (!head.has(node.id)) continue;
    for (const ValueId& id : node.inputs) circle = circle || (id.node >= 0 && !head.has(id.node) && behind[static_cast<size_t>(id.node)]);
  }
  return circle;
}

std::optional<Head> head_of(const Graph& graph, const Node& slopes) {
  if (!is_part(slopes, kSlopes) || graph.type(slopes.inputs[1]).dtype != Dtype::i64) return {};
  const Node& product = graph.node(slopes.inputs[0]);
  if (!is_part(product, kProduct) || !fits(graph, product)) return {};
  Head head{.product = product.id, .slopes = slopes.id};
  for (const Node& node : graph.nodes()) {
    if (is_part(node, kLoss) && std::equal(node.inputs.begin(), node.inputs.end(), slopes.inputs.begin()) &&
        node.attrs.dump() == slopes.attrs.dump())
      head.loss = node.id;
    if (is_part(node, kBack) && node.inputs[0] == ValueId{slopes.id, 0} && node.inputs[1] == product.inputs[1] &&
        known_slope(node, product.inputs[0]))
      head.back = node.id;
  }
  if (head.loss < 0 || head.back < 0 || runs_in_a_circle(graph, head)) return {};
  return head;
}

class Join {
 public:
  Join(const Graph& graph, const Head& head) : rewrite_(graph), head_(head) {}

  // The head stands where its last op was; what reads its results before comes behind it.
  Graph run() {
    std::vector<const Node*> later;
    for (const Node& node : rewrite_.from().nodes()) {
      if (node.id == head_.back) {
        emit();
        for (const Node* reader : later) rewrite_.copy(*reader);
        later.clear();
      } else if (!head_.has(node.id)) {
        const bool ready = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return id.node < 0 || rewrite_.has(id); });
        if (ready) rewrite_.copy(node);
        else if (node.op->constant) rewrite_.set({node.id, 0}, rewrite_.to().constant(attr_number(node, "value"), node.outputs[0]).id());
        else later.push_back(&node);
      }
    }
    return rewrite_.finish();
  }

 private:
  const Node& node(int id) const { return rewrite_.from().nodes()[static_cast<size_t>(id)]; }

  void emit() {
    const Node &product = node(head_.product), &slopes = node(head_.slopes), &back = node(head_.back);
    std::vector<Value> operands;
    for (const ValueId& id : {product.inputs[0], product.inputs[1], slopes.inputs[1], slopes.inputs[2]})
      operands.push_back(rewrite_.value(id));
    if (product.inputs.size() > 2) operands.push_back(rewrite_.value(product.inputs[2]));
    Json attrs = Json::object();
    if (const Json* smoothing = slopes.attrs.find("label_smoothing")) attrs.set("label_smoothing", *smoothing);
    if (const Json* activation = back.attrs.find("activation")) attrs.set("activation", *activation);
    rewrite_.to().set_scope(product.scope);
    const std::vector<Value> results = rewrite_.to().apply_all(head_op().name, operands, attrs);
    const int replaced[] = {head_.product, head_.loss, head_.slopes, head_.back};
    for (size_t i = 0; i < results.size(); ++i) rewrite_.set({replaced[i], 0}, results[i].id());
  }

  Rewrite rewrite_;
  const Head head_;
};

}  // namespace

Graph fuse_head(Graph graph) {
  for (const Node& node : graph.nodes())
    if (const auto head = head_of(graph, node)) return fuse_head(Join(graph, *head).run());
  return graph;
}

}  // namespace perigee
