// The loop of scan.h as an op: types, slices, and its gradient, which is a loop again.
#include "src/graph/scan.h"

#include <cassert>
#include <map>
#include <set>
#include <string>

#include "kernels/dtype_kinds.h"
#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/op_list.h"
#include "src/graph/passes/rewrite.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

constexpr Option kCarries = {"carries", "integer", nullptr, "values that go from step to step", {.low = 0}};
constexpr Option kScanSteps = {"steps", "integer", nullptr, "sequences that are read step by step", {.low = 0}};
constexpr Option kFixed = {"fixed", "integer", nullptr, "values by example that all steps share", {.low = 0}};
constexpr Option kResults = {"results", "integer", nullptr, "sequences that are written step by step", {.low = 0}};
constexpr Option kLength = {"length", "integer", nullptr, "steps", {.low = 1}};
constexpr Option kScanReverse = {"reverse", "boolean", "false", "from the last step to the first"};
constexpr Option kScanOptions[] = {kCarries, kScanSteps, kFixed, kResults, kLength, kScanReverse};

ScanLayout layout_of(const OpCall& call) { return scan_layout(call.attrs, *call.body, call.inputs.size()); }

Type over_steps(const Type& step, int64_t length) {
  std::vector<int64_t> dims = step.shape.vector();
  dims.insert(dims.begin() + 1, length);
  return {step.dtype, Shape(dims)};
}

const Type& output_type(const Graph& body, const std::string& name) { return body.type(body_output(body, name)); }

std::vector<Type> infer_scan(const OpCall& call) {
  const ScanLayout layout = layout_of(call);
  const Graph& body = *call.body;
  std::vector<Type> types;
  for (int i = 0; i < layout.carries; ++i) types.push_back(output_type(body, "c" + std::to_string(i)));
  for (int i = 0; i < layout.results; ++i) types.push_back(over_steps(output_type(body, "y" + std::to_string(i)), layout.length));
  for (int i = 0; i < layout.sums; ++i) types.push_back(output_type(body, "s" + std::to_string(i)));
  for (int i = 0; i < layout.carries; ++i) types.push_back(over_steps(types[static_cast<size_t>(i)], layout.length));
  return types;
}

// --- slices ---

// As the body's own analysis has it: its inputs are examples, its parameters are shared.
Sliced of_sum(const OpCall& call, int i) {
  const ValueId id = body_output(*call.body, "s" + std::to_string(i));
  return analyze_slices(*call.body).values[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
}

Sliced scan_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  const int by_example = layout_of(call).operand_of_weight(0);
  Sliced result = Sliced::whole;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const Sliced input = inputs[static_cast<size_t>(i)];
    if (input == Sliced::partial || (i >= by_example && input != Sliced::whole)) return Sliced::mixed;
    if (i < by_example && i > 0 && input != result) return Sliced::mixed;
    if (i < by_example) result = input;
  }
  return result == Sliced::batch && !analyze_slices(*call.body).sliceable ? Sliced::mixed : result;
}

Sliced scan_sliced_output(const OpCall& call, std::span<const Sliced> inputs, int output) {
  const Sliced all = scan_sliced(call, inputs);
  const ScanLayout layout = layout_of(call);
  const bool sum = output >= layout.sum(0) && output < layout.before(0);
  return all == Sliced::batch && sum ? of_sum(call, output - layout.sum(0)) : all;
}

double scan_flops(const OpCall& call) {
  double sum = 0;
  for (const Node& node : call.body->nodes()) {
    if (is_leaf(node)) continue;
    const OperandTypes types(*call.body, node);
    double elements = 0;
    for (const Type& type : node.outputs) elements += static_cast<double>(type.shape.elements());
    sum += node.op->flops ? node.op->flops(types.call()) : elements;
  }
  return sum * static_cast<double>(layout_of(call).length);
}

// --- the gradient ---

// Builds the loop that goes back over the steps: each computes its forward step from the values carried into it, and the gradients of that.
class Backward {
 public:
  Backward(Graph& graph, const Node& node, std::span<const Value> grads)
      : graph_(graph), node_(node), grads_(grads), forward_(scan_layout(node.attrs, *node.body, node.inputs.size())) {}

  std::vector<Value> run() {
    repeat_step();
    seed_results();
    const std::vector<Value> flows = gradients(*body_, roots_, seeds_, targets_);
    name_outputs(flows);
    read_results();
    return apply();
  }

 private:
  enum class Kind { carry, step, fixed, weight };
  struct Target {
    Kind kind;
    int operand;  // of the forward node
  };

  Value new_leaf(Kind kind, const Type& type, Value outside) {
    static constexpr const char* kLetters[] = {"c", "x", "f", "w"};
    std::vector<Value>& list = operands_[static_cast<size_t>(kind)];
    const std::string name = kLetters[static_cast<int>(kind)] + std::to_string(list.size());
    list.push_back(outside);
    return kind == Kind::weight ? body_->parameter(name, type) : body_->input(name, type);
  }

  Value in(int operand) const { return node_.in(graph_, static_cast<size_t>(operand)); }
  Value out(int output) const { return node_.out(graph_, output); }
  Value grad(int output) const { return grads_[static_cast<size_t>(output)]; }

  // The forward body: what was carried is read from what the forward loop has kept.
  void repeat_step() {
    std::map<std::string, Value> leaves;
    const auto leaf = [&](Kind kind, const std::string& name, int operand, Value outside) {
      const ValueId known = body_leaf(*node_.body, name);
      if (known.node < 0) return;  // no step reads it
      const Value made = new_leaf(kind, node_.body->type(known), outside);
      leaves.emplace(name, made);
      if (is_floating(made.dtype())) {
        targets_.push_back(made);
        wanted_.push_back({kind == Kind::step && name[0] == 'c' ? Kind::carry : kind, operand});
      }
    };
    for (int i = 0; i < forward_.carries; ++i) leaf(Kind::step, "c" + std::to_string(i), i, out(forward_.before(i)));
    for (int i = 0; i < forward_.steps; ++i)
      leaf(Kind::step, "x" + std::to_string(i), forward_.operand_of_step(i), in(forward_.operand_of_step(i)));
    for (int i = 0; i < forward_.fixed; ++i)
      leaf(Kind::fixed, "f" + std::to_string(i), forward_.operand_of_fixed(i), in(forward_.operand_of_fixed(i)));
    for (int i = 0; i < forward_.weights; ++i)
      leaf(Kind::weight, "w" + std::to_string(i), forward_.operand_of_weight(i), in(forward_.operand_of_weight(i)));
    for (const Tensor& constant : node_.body->constants()) body_->add_constant(constant);
    for (const Node& each : node_.body->nodes()) {
      if (each.op->leaf != LeafOp::none && each.op->leaf != LeafOp::table) {
        moved_[{each.id, 0}] = leaves.at(attr_string(each, "name"));
        continue;
      }
      Node same = each;
      for (ValueId& id : same.inputs)
        if (id.node >= 0) id = moved_.at(id).id();
      const int id = body_->append(std::move(same)).node;
      for (int o = 0; o < static_cast<int>(each.outputs.size()); ++o) moved_[{each.id, o}] = Value(body_.get(), {id, o});
    }
  }

  void seed(const std::string& output, Kind kind, Value given) {
    const Value root = moved_.at(body_output(*node_.body, output));
    roots_.push_back(root);
    seeds_.push_back(new_leaf(kind, root.type(), given));
  }

  // The gradients of the step's outputs are leaves of the new body.
  void seed_results() {
    for (int i = 0; i < forward_.carries; ++i) {
      if (!is_floating(in(i).dtype())) continue;
      seed("c" + std::to_string(i), Kind::carry, grad(i) ? grad(i) : zeros_like(in(i)));
      carried_.push_back(i);
    }
    for (int i = 0; i < forward_.results; ++i)
      if (const Value given = grad(forward_.result(i))) seed("y" + std::to_string(i), Kind::step, given);
    const SliceAnalysis analysis = analyze_slices(*node_.body);
    for (int i = 0; i < forward_.sums; ++i) {
      const Value given = grad(forward_.sum(i));
      if (!given) continue;
      const ValueId id = body_output(*node_.body, "s" + std::to_string(i));
      const bool by_example = analysis.values[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)] == Sliced::batch;
      seed("s" + std::to_string(i), by_example ? Kind::fixed : Kind::weight, given);
    }
  }

  // Carried: the gradient of what was carried into the step. By step: that of its parts of the sequences. Sums: those of what steps share.
  void name_outputs(const std::vector<Value>& flows) {
    for (size_t k = 0; k < flows.size(); ++k) {
      const Target& target = wanted_[k];
      if (target.kind == Kind::carry) {
        Value flow = flows[k];
        if (const Value given = grad(forward_.before(target.operand))) {
          const Value kept = new_leaf(Kind::step, targets_[k].type(), given);
          flow = flow ? flow + kept : kept;
        }
        carry_flows_[target.operand] = flow ? flow : zeros_like(targets_[k]);
      } else if (flows[k]) {
        auto& list = target.kind == Kind::step ? step_flows_ : shared_flows_;
        list.emplace_back(target.operand, flows[k]);
      }
    }
    for (size_t i = 0; i < carried_.size(); ++i) {
      const auto flow = carry_flows_.find(carried_[i]);
      const std::string name = "c" + std::to_string(i);
      body_->output(name, flow != carry_flows_.end() ? flow->second : zeros_like(Value(body_.get(), body_leaf(*body_, name))));
    }
    for (size_t i = 0; i < step_flows_.size(); ++i) body_->output("y" + std::to_string(i), step_flows_[i].second);
    for (size_t i = 0; i < shared_flows_.size(); ++i) body_->output("s" + std::to_string(i), shared_flows_[i].second);
  }

  // Results of the forward loop need not be computed once more where its value is wanted.
  void read_results() {
    std::map<ValueId, int> known;
    for (int i = 0; i < forward_.results; ++i) {
      const ValueId value = moved_.at(body_output(*node_.body, "y" + std::to_string(i))).id();
      if (!is_leaf(body_->node(value))) known.emplace(value, i);
    }
    std::set<ValueId> wanted;  // as far as no result stands in between
    std::vector<ValueId> open;
    for (const NamedValue& output : body_->outputs()) open.push_back(output.value);
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (value.node < 0 || !wanted.insert(value).second || known.contains(value)) continue;
      for (const ValueId& input : body_->node(value).inputs) open.push_back(input);
    }
    std::erase_if(known, [&](const auto& each) { return !wanted.contains(each.first); });
    if (!known.empty()) replace(known, wanted);
  }

  // The body with leaves in place of these results of the forward loop, and without what only they needed.
  void replace(const std::map<ValueId, int>& known, const std::set<ValueId>& wanted) {
    std::map<ValueId, Value> leaves;
    for (const auto& [value, i] : known) leaves.emplace(value, new_leaf(Kind::step, body_->type(value), out(forward_.result(i))));
    Rewrite rewrite(*body_);
    for (const Node& node : body_->nodes())
      if (is_leaf(node)) rewrite.copy(node);
    for (const auto& [value, leaf] : leaves) rewrite.set(value, rewrite.moved(leaf.id()));
    for (const Node& node : body_->nodes()) {
      bool computed = false;
      for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o)
        computed |= wanted.contains({node.id, o}) && !known.contains({node.id, o});
      if (is_leaf(node) || !computed) continue;
      rewrite.to().set_scope(node.scope);
      rewrite.copy(node);
      for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o)
        if (const auto leaf = leaves.find({node.id, o}); leaf != leaves.end()) rewrite.set(leaf->first, rewrite.moved(leaf->second.id()));
    }
    body_ = std::make_shared<Graph>(rewrite.finish());
  }

  std::vector<Value> apply() {
    std::vector<Value> all;
    for (const auto& list : operands_) all.insert(all.end(), list.begin(), list.end());
    const auto size = [&](Kind kind) { return static_cast<int64_t>(operands_[static_cast<size_t>(kind)].size()); };
    const std::vector<Value> made = graph_.apply_all("scan", all,
                                                     Json(Json::Object{{"carries", size(Kind::carry)},
                                                                       {"steps", size(Kind::step)},
                                                                       {"fixed", size(Kind::fixed)},
                                                                       {"results", static_cast<int64_t>(step_flows_.size())},
                                                                       {"length", forward_.length},
                                                                       {"reverse", !forward_.reverse}}),
                                                     body_);
    std::vector<Value> flows(node_.inputs.size());
    size_t next = 0;
    for (const int carry : carried_) flows[static_cast<size_t>(carry)] = made[next++];
    for (const auto& [operand, unused] : step_flows_) flows[static_cast<size_t>(operand)] = made[next++];
    for (const auto& [operand, unused] : shared_flows_) flows[static_cast<size_t>(operand)] = made[next++];
    return flows;
  }

  Graph& graph_;
  const Node& node_;
  std::span<const Value> grads_;
  ScanLayout forward_;
  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
  std::vector<Value> operands_[4];  // of the new loop, by kind
  std::map<ValueId, Value> moved_;  // values of the forward body
  std::vector<Value> roots_, seeds_, targets_;
  std::vector<Target> wanted_;  // by target
  std::vector<int> carried_;    // carries that have a gradient
  std::map<int, Value> carry_flows_;
  std::vector<std::pair<int, Value>> step_flows_, shared_flows_;
};

std::vector<Value> scan_vjp(Graph& graph, const Node& node, std::span<const Value> grads) { return Backward(graph, node, grads).run(); }

constexpr OpDef kScanOps[] = {{.name = "scan",
                               .doc = "A loop over steps whose body is a graph: what is carried first, sequences, values that steps share.",
                               .attributes = {.options = kScanOptions},
                               .min_inputs = 1,
                               .max_inputs = -1,
                               .infer = infer_scan,
                               .vjp = scan_vjp,
                               .sliced = scan_sliced,
                               .sliced_output = scan_sliced_output,
                               .flops = scan_flops,
                               .internal = true,
                               .loop = true}};

}  // namespace

ScanLayout scan_layout(const Json& attrs, const Graph& body, size_t operands) {
  ScanLayout layout{.carries = static_cast<int>(attr_int(attrs, kCarries)),
                    .steps = static_cast<int>(attr_int(attrs, kScanSteps)),
                    .fixed = static_cast<int>(attr_int(attrs, kFixed)),
                    .results = static_cast<int>(attr_int(attrs, kResults)),
                    .length = attr_int(attrs, kLength),
                    .reverse = attr_bool(attrs, kScanReverse)};
  layout.weights = static_cast<int>(operands) - layout.operand_of_weight(0);
  layout.sums = static_cast<int>(body.outputs().size()) - layout.carries - layout.results;
  assert(layout.weights >= 0 && layout.sums >= 0);
  return layout;
}

extern const OpList ops_scan;
const OpList ops_scan = op_list(kScanOps);

}  // namespace perigee
