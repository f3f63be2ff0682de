#include "src/graph/passes/fuse_elementwise.h"

#include <algorithm>
#include <set>
#include <vector>

#include "kernels/dtype_kinds.h"
#include "kernels/ops/fused.h"
#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

// Inside a program everything is f32: what is stored in 16 bits is rounded where it leaves the program.
bool is_result_dtype(Dtype dtype) { return dtype == Dtype::f32 || is_half(dtype) || dtype == Dtype::boolean; }
bool is_operand_dtype(Dtype dtype) { return is_result_dtype(dtype) || dtype == Dtype::u8; }

constexpr int64_t kSmall = 4096;  // elements

using Group = std::vector<int>;  // node numbers, ascending, which is an order of computation

// A group in the form of one node.
struct Draft {
  std::vector<ValueId> inputs;  // of the old graph
  std::vector<double> constants;
  std::vector<ValueId> outputs;
  size_t instructions = 0;
  bool fits() const {
    return inputs.size() <= kFusedInputs && constants.size() <= kFusedConstants && outputs.size() <= kFusedOutputs && !outputs.empty() &&
           instructions <= kFusedTemporaries;  // so that registers cannot run out either
  }
};

class ElementwiseFuser {
 public:
  explicit ElementwiseFuser(const Graph& graph)
      : graph_(graph), rewrite_(graph), slices_(analyze_slices(graph)), group_of_(graph.nodes().size(), -1) {
    users_.resize(graph.nodes().size());
    kept_.resize(graph.nodes().size(), false);
    seen_.resize(graph.nodes().size(), 0);
    for (const Node& node : graph.nodes())
      for (const ValueId& id : node.inputs)
        if (id.node >= 0) users_[static_cast<size_t>(id.node)].push_back(node.id);
    for (const NamedValue& output : graph.outputs()) kept_[static_cast<size_t>(output.value.node)] = true;
    for (const Assignment& assignment : graph.assignments()) kept_[static_cast<size_t>(assignment.value.node)] = true;
  }

  Graph run() {
    // From the last node to the first, each with those that use it: what only the backward pass needs is computed there, from values
    // that are kept anyway, and is not one more value to keep.
    for (size_t i = graph_.nodes().size(); i-- > 0;)
      if (can_join(graph_.nodes()[i])) join(graph_.nodes()[i]);
    join_small_ends();
    emitted_.resize(graph_.nodes().size(), false);
    for (const Node& node : graph_.nodes()) {
      const int group = group_of_[static_cast<size_t>(node.id)];
      if (group < 0 || groups_[static_cast<size_t>(group)].back() == node.id) emit(node.id);
    }
    return rewrite_.finish();
  }

 private:
  const Node& node_at(int id) const { return graph_.nodes()[static_cast<size_t>(id)]; }
  Sliced sliced(int id) const { return slices_.values[static_cast<size_t>(id)][0]; }

  // A conversion that changes nothing inside a program, where everything is f32.
  bool is_free_cast(const Node& node) const {
    const Dtype to = node.outputs[0].dtype;
    return node.op->converts && (to == Dtype::f32 || is_half(to)) && is_operand_dtype(graph_.type(node.inputs[0]).dtype);
  }

  bool is_constant(ValueId id) const { return node_at(id.node).op->constant; }
  double constant(ValueId id) const { return attr_number(graph_.node(id), "value"); }

  bool can_join(const Node& node) const {
    if (!is_free_cast(node) && !node.op->instruction) return false;
    if (!is_result_dtype(node.outputs[0].dtype) || sliced(node.id) == Sliced::partial) return false;
    for (const ValueId& id : node.inputs)
      if (id.node < 0 || !is_operand_dtype(graph_.type(id).dtype)) return false;
    return true;
  }

  // A group of its own, then one with each user's group in turn, where that is possible.
  void join(const Node& node) {
    group_of_[static_cast<size_t>(node.id)] = static_cast<int>(groups_.size());
    groups_.push_back({node.id});
    for (int user : users_[static_cast<size_t>(node.id)]) {
      const int other = group_of_[static_cast<size_t>(user)], mine = group_of_[static_cast<size_t>(node.id)];
      if (other < 0 || other == mine || node_at(user).outputs[0].shape != node.outputs[0].shape || sliced(user) != sliced(node.id))
        continue;
      merge(static_cast<size_t>(mine), static_cast<size_t>(other));
    }
  }

  // Small programs that nothing in the graph waits for (running statistics) share one where their shapes are alike: a call of its own costs
  // more than the work of each.
  void join_small_ends() {
    std::map<int64_t, size_t> open;  // by elements: the group that takes more
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].empty()) continue;
      const Node& first = node_at(groups_[i].front());
      const int64_t elements = first.outputs[0].shape.elements();
      const bool ends = std::all_of(groups_[i].begin(), groups_[i].end(), [&](int id) {
        return std::all_of(users_[static_cast<size_t>(id)].begin(), users_[static_cast<size_t>(id)].end(),
                           [&](int user) { return contains(groups_[i], user); });
      });
      if (!ends || elements > kSmall) continue;
      const auto [found, fresh] = open.try_emplace(elements, i);
      if (!fresh && !merge(i, found->second)) found->second = i;
    }
  }

  bool merge(size_t from, size_t to) {
    const Node &a = node_at(groups_[from].front()), &b = node_at(groups_[to].front());
    if (a.outputs[0].shape != b.outputs[0].shape || sliced(a.id) != sliced(b.id)) return false;
    Group merged;
    std::merge(groups_[from].begin(), groups_[from].end(), groups_[to].begin(), groups_[to].end(), std::back_inserter(merged));
    if (!draft(merged).fits() || comes_back(merged)) return false;
    for (const int member : groups_[from]) group_of_[static_cast<size_t>(member)] = static_cast<int>(to);
    groups_[from].clear();
    groups_[to] = std::move(merged);
    return true;
  }

  static bool contains(const Group& group, int id) { return std::binary_search(group.begin(), group.end(), id); }

  // Does a path lead from the group through other nodes (or groups, which are computed as one) back into it?
  bool comes_back(const Group& group) {
    ++search_;
    const int last = group.back();
    std::vector<int> work;
    const auto visit_users = [&](int id) {
      for (int user : users_[static_cast<size_t>(id)]) {
        if (seen_[static_cast<size_t>(user)] == search_) continue;
        seen_[static_cast<size_t>(user)] = search_;
        // Users come later, so what begins after the group's last member does not lead to it.
        const int other = group_of_[static_cast<size_t>(user)];
        if ((other < 0 ? user : groups_[static_cast<size_t>(other)].front()) <= last) work.push_back(user);
      }
    };
    for (int member : group) seen_[static_cast<size_t>(member)] = search_;  // inside, a use is no way out
    for (int member : group) visit_users(member);
    for (int member : group) seen_[static_cast<size_t>(member)] = 0;
    while (!work.empty()) {
      const int id = work.back();
      work.pop_back();
      if (contains(group, id)) return true;
      const int other = group_of_[static_cast<size_t>(id)];
      if (other < 0) {
        visit_users(id);
        continue;
      }
      for (int member : groups_[static_cast<size_t>(other)]) visit_users(member);
    }
    return false;
  }

  Draft draft(const Group& group) const {
    Draft result;
    for (int member : group) {
      const Node& node = node_at(member);
      if (!is_free_cast(node)) ++result.instructions;
      for (const ValueId& id : node.inputs) {
        if (contains(group, id.node)) continue;
        if (is_constant(id)) {
          if (std::find(result.constants.begin(), result.constants.end(), constant(id)) == result.constants.end())
            result.constants.push_back(constant(id));
        } else if (std::find(result.inputs.begin(), result.inputs.end(), id) == result.inputs.end()) {
          result.inputs.push_back(id);
        }
      }
      bool outside = kept_[static_cast<size_t>(member)];
      for (int user : users_[static_cast<size_t>(member)]) outside |= !contains(group, user);
      if (outside) result.outputs.push_back({member, 0});
    }
    return result;
  }

  // Whether the group is worth a program, and its operands give its shape without the constants.
  bool becomes_program(const Group& group, const Draft& planned) const {
    if (planned.instructions < 2 || planned.inputs.empty()) return false;
    Shape shape;
    for (const ValueId& id : planned.inputs) shape = broadcast(shape, graph_.type(id).shape);
    if (shape != node_at(group[0]).outputs[0].shape) return false;
    for (ValueId id : planned.outputs) {  // the value of a free cast is its operand's: perhaps no result of the code
      const bool truth = graph_.type(id).dtype == Dtype::boolean;
      while (contains(group, id.node) && is_free_cast(graph_.node(id))) id = graph_.node(id).inputs[0];
      if (!contains(group, id.node)) return false;
      if (truth != (graph_.type(id).dtype == Dtype::boolean)) return false;  // a program writes the result of a comparison as one
    }
    return true;
  }

  // Emits a node, or the whole group that it belongs to, after everything that it needs.
  void emit(int id) {
    if (emitted_[static_cast<size_t>(id)]) return;
    const int number = group_of_[static_cast<size_t>(id)];
    if (number < 0) {
      for (const ValueId& input : node_at(id).inputs)
        if (input.node >= 0) emit(input.node);
      emitted_[static_cast<size_t>(id)] = true;
      rewrite_.copy(node_at(id));
      return;
    }
    const Group& group = groups_[static_cast<size_t>(number)];
    for (int member : group)
      for (const ValueId& input : node_at(member).inputs)
        if (!contains(group, input.node)) emit(input.node);
    for (int member : group) emitted_[static_cast<size_t>(member)] = true;
    const Draft planned = draft(group);
    if (becomes_program(group, planned)) emit_program(group, planned);
    else
      for (int member : group) rewrite_.copy(node_at(member));
  }

  void emit_program(const Group& group, const Draft& planned) {
    std::map<ValueId, int> registers;
    std::vector<Value> operands;
    for (const ValueId& id : planned.inputs) {
      registers[id] = static_cast<int>(operands.size());
      operands.push_back(rewrite_.value(id));
    }
    const int first_constant = static_cast<int>(operands.size());
    Json constants = Json::array(), code = Json::array(), outputs = Json::array();
    for (double number : planned.constants) constants.push(number);
    int next = first_constant + static_cast<int>(planned.constants.size());
    const auto register_of = [&](ValueId id) {
      if (const auto known = registers.find(id); known != registers.end()) return known->second;
      const auto at = std::find(planned.constants.begin(), planned.constants.end(), constant(id));
      return first_constant + static_cast<int>(at - planned.constants.begin());
    };
    for (int member : group) {
      const Node& node = node_at(member);
      if (is_free_cast(node)) {
        registers[{member, 0}] = register_of(node.inputs[0]);
        continue;
      }
      Json line = Json::array();
      line.push(node.op->name);
      for (const ValueId& id : node.inputs) line.push(register_of(id));
      code.push(std::move(line));
      registers[{member, 0}] = next++;
    }
    Json types = Json::array();
    bool in_half = false;
    for (const ValueId& id : planned.outputs) {
      outputs.push(registers[id]);
      types.push(dtype_name(graph_.type(id).dtype));
      in_half |= is_half(graph_.type(id).dtype);
    }
    Json attrs = Json::object();
    attrs.set("code", std::move(code));
    attrs.set("constants", std::move(constants));
    attrs.set("outputs", std::move(outputs));
    if (in_half) attrs.set("types", std::move(types));
    rewrite_.to().set_scope(node_at(group.back()).scope);
    const std::vector<Value> results = rewrite_.to().apply_all("fused", operands, std::move(attrs));
    for (size_t o = 0; o < results.size(); ++o) rewrite_.set(planned.outputs[o], results[o].id());
  }

  const Graph& graph_;
  Rewrite rewrite_;
  SliceAnalysis slices_;
  std::vector<int> group_of_;  // by node; -1: none
  std::vector<Group> groups_;  // empty: merged into another
  std::vector<std::vector<int>> users_;
  std::vector<bool> kept_;  // is an output or assigned
  std::vector<bool> emitted_;
  std::vector<int> seen_;  // by node: the last search that came by
  int search_ = 0;
};

}  // namespace

Graph fuse_elementwise(const Graph& graph) { return ElementwiseFuser(graph).run(); }

}  // namespace perigee
