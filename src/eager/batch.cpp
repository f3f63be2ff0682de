#include "src/eager/batch.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/core/error.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

constexpr double kWorthFlops = 1e6;
constexpr size_t kMaxCandidates = 6;  // arguments of one length; all their subsets are tried

double flops_of(const Graph& graph, const Node& node) {
  if (node.op->max_inputs == 0) return 0;
  const OperandTypes types(graph, node);
  return node.op->flops ? node.op->flops(types.call()) : static_cast<double>(node.outputs[0].shape.elements());
}

// The same graph with the leaves of `batch` as inputs, and the others as parameters: whole for every part.
Graph with_batch(const Graph& graph, const std::set<int>& batch) {
  Graph result;
  for (const Tensor& constant : graph.constants()) result.add_constant(constant);
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    if (node.op->leaf == LeafOp::input || node.op->leaf == LeafOp::parameter)
      copy.op = &op_named(batch.contains(node.id) ? "input" : "parameter");
    result.append(std::move(copy));
  }
  for (const Leaf& leaf : graph.leaves())
    result.add_leaf({leaf.name, batch.contains(leaf.value.node) ? LeafKind::input : LeafKind::parameter, leaf.value});
  for (const NamedValue& output : graph.outputs()) result.output(output.name, Value(&result, output.value));
  return result;
}

struct Choice {
  std::set<int> batch;
  SliceAnalysis slices;
  int64_t rows = 0;
  double flops = 0;  // shared
};

// Sets of arguments of one length to try: all, or where they are many the first and the last few.
std::vector<std::set<int>> candidates(const std::vector<int>& nodes) {
  std::vector<std::set<int>> sets;
  if (nodes.size() <= kMaxCandidates) {
    for (unsigned subset = 1; subset < 1u << nodes.size(); ++subset) {
      sets.emplace_back();
      for (size_t i = 0; i < nodes.size(); ++i)
        if (subset >> i & 1u) sets.back().insert(nodes[i]);
    }
    return sets;
  }
  for (size_t count = 1; count <= kMaxCandidates; ++count) {
    sets.emplace_back(nodes.end() - static_cast<std::ptrdiff_t>(count), nodes.end());
    sets.emplace_back(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return sets;
}

// The arguments that, taken as a batch, share most of the work.
Choice best_batch(const Graph& graph) {
  std::map<int64_t, std::vector<int>> by_rows;
  for (const Leaf& leaf : graph.leaves()) {
    const Shape& shape = graph.type(leaf.value).shape;
    if (shape.rank() > 0 && shape[0] > 1) by_rows[shape[0]].push_back(leaf.value.node);
  }
  Choice best;
  for (const auto& [rows, nodes] : by_rows) {
    for (const std::set<int>& batch : candidates(nodes)) {
      Choice choice{.batch = batch, .rows = rows};
      const Graph kinds = with_batch(graph, batch);
      choice.slices = analyze_slices(kinds);
      for (const Node& node : kinds.nodes()) {
        const Sliced sliced = choice.slices.values[static_cast<size_t>(node.id)][0];
        if (sliced == Sliced::batch || sliced == Sliced::partial) choice.flops += flops_of(kinds, node);
      }
      if (choice.flops > best.flops) best = std::move(choice);
    }
  }
  return best;
}

// Builds the two graphs. False: a shape does not follow the batch.
class Cutter {
 public:
  Cutter(const Graph& graph, const Choice& choice, int parts) : graph_(graph), choice_(choice), part_rows_(choice.rows / parts) {}

  bool run(BatchCut& cut) {
    find_boundaries(cut);
    return build_rows(cut) && build_rest(cut);
  }

 private:
  Sliced sliced(ValueId id) const { return choice_.slices.values[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]; }
  bool shared(ValueId id) const { return sliced(id) == Sliced::batch || sliced(id) == Sliced::partial; }

  void find_boundaries(BatchCut& cut) {
    std::set<ValueId> crossing;
    for (const Node& node : graph_.nodes()) {
      if (node.outputs.empty() || shared({node.id, 0})) continue;
      for (const ValueId& id : node.inputs)
        if (id.node >= 0 && shared(id) && !is_leaf(graph_.node(id))) crossing.insert(id);
    }
    for (const NamedValue& output : graph_.outputs())
      if (shared(output.value) && !is_leaf(graph_.node(output.value))) crossing.insert(output.value);
    for (const ValueId& id : crossing)
      cut.boundaries.push_back({id, std::string("b").append(std::to_string(cut.boundaries.size())), sliced(id) == Sliced::partial});
  }

  Type part_type(ValueId id) const {
    Type type = graph_.type(id);
    if (sliced(id) == Sliced::batch) type.shape = type.shape.with(0, part_rows_);
    return type;
  }

  // Shapes in attributes follow the batch.
  Json part_attrs(const Node& node) const {
    Json attrs = node.attrs;
    Json* shape = attrs.find("shape");
    if (shape && sliced({node.id, 0}) == Sliced::batch && shape->is_array() && !shape->as_array().empty() &&
        shape->as_array()[0] == Json(choice_.rows))
      shape->as_array()[0] = Json(part_rows_);
    return attrs;
  }

  Value copy_leaf(Graph& to, const Node& node, bool rows) {
    if (node.op->leaf == LeafOp::table) return to.constant(graph_.constants()[static_cast<size_t>(attr_int(node, "index"))]);
    const std::string name = attr_string(node, "name");
    if (rows && choice_.batch.contains(node.id)) return to.input(name, part_type({node.id, 0}));
    return to.parameter(name, node.outputs[0]);
  }

  std::vector<Value> copy_node(Graph& to, const Node& node, Json attrs) {
    std::vector<Value> operands;
    for (const ValueId& id : node.inputs) operands.push_back(id.node < 0 ? Value() : moved_.at(id));
    return to.apply_all(node.op->name, operands, std::move(attrs), node.body);
  }

  bool build_rows(BatchCut& cut) {
    moved_.clear();
    for (const Node& node : graph_.nodes()) {
      if (choice_.slices.values[static_cast<size_t>(node.id)][0] == Sliced::mixed) continue;
      const std::vector<Value> made =
          is_leaf(node) ? std::vector<Value>{copy_leaf(cut.rows, node, true)} : copy_node(cut.rows, node, part_attrs(node));
      for (int o = 0; o < static_cast<int>(made.size()); ++o) {
        if (made[static_cast<size_t>(o)].type() != part_type({node.id, o})) return false;
        moved_[{node.id, o}] = made[static_cast<size_t>(o)];
      }
    }
    for (const Boundary& boundary : cut.boundaries) cut.rows.output(boundary.name, moved_.at(boundary.value));
    return true;
  }

  bool build_rest(BatchCut& cut) {
    moved_.clear();
    std::map<ValueId, const Boundary*> boundaries;
    for (const Boundary& boundary : cut.boundaries) boundaries[boundary.value] = &boundary;
    for (const Node& node : graph_.nodes()) {
      if (is_leaf(node)) {
        moved_[{node.id, 0}] = copy_leaf(cut.rest, node, false);
        continue;
      }
      if (!shared({node.id, 0})) {
        const std::vector<Value> made = copy_node(cut.rest, node, node.attrs);
        for (int o = 0; o < static_cast<int>(made.size()); ++o) moved_[{node.id, o}] = made[static_cast<size_t>(o)];
      }
      for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o)
        if (const auto found = boundaries.find({node.id, o}); found != boundaries.end())
          moved_[{node.id, o}] = cut.rest.parameter(found->second->name, node.outputs[static_cast<size_t>(o)]);
    }
    for (const NamedValue& output : graph_.outputs())
      if (!boundaries.contains(output.value)) cut.rest.output(output.name, moved_.at(output.value));
    return true;
  }

  const Graph& graph_;
  const Choice& choice_;
  int64_t part_rows_;
  std::map<ValueId, Value> moved_;
};

}  // namespace

Graph without_batch(const Graph& graph) { return with_batch(graph, {}); }

Graph with_best_batch(const Graph& graph) { return with_batch(graph, best_batch(graph).batch); }

std::optional<BatchCut> cut_batch(const Graph& graph, int parts) {
  if (parts < 2) return std::nullopt;
  const Choice choice = best_batch(graph);
  double total = 0;
  for (const Node& node : graph.nodes()) total += flops_of(graph, node);
  if (choice.slices.collective || choice.flops < kWorthFlops || choice.flops < 0.5 * total) return std::nullopt;
  while (parts > 1 && choice.rows % parts != 0) --parts;
  if (parts < 2) return std::nullopt;
  BatchCut cut{.parts = parts};
  try {
    if (!Cutter(graph, choice, parts).run(cut)) return std::nullopt;
  } catch (const Error&) {  // an op that does not work on fewer rows
    return std::nullopt;
  }
  return cut;
}

}  // namespace perigee
