#include "src/graph/passes/unroll_scan.h"

#include <algorithm>
#include <string>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"
#include "src/graph/scan.h"

namespace perigee {
namespace {

constexpr size_t kMostNodes = 1'000'000;

// [N, ...] of [N, T, ...].
Value step_of(Value sequence, int64_t t) {
  std::vector<int64_t> start(static_cast<size_t>(sequence.rank()), 0), stop = sequence.shape().vector(), dims = stop;
  start[1] = t;
  stop[1] = t + 1;
  dims.erase(dims.begin() + 1);
  const Value one = slice(sequence, start, stop);
  return reshape(one, Shape(dims));
}

Value sequence_of(const std::vector<Value>& steps) {
  std::vector<Value> each;
  for (const Value& step : steps) {
    std::vector<int64_t> dims = step.shape().vector();
    dims.insert(dims.begin() + 1, 1);
    each.push_back(reshape(step, Shape(dims)));
  }
  return each.size() == 1 ? each[0] : concatenate(each, 1);
}

class Unroll {
 public:
  explicit Unroll(const Graph& graph) : rewrite_(graph) {}

  Graph run() {
    for (const Node& node : rewrite_.from().nodes()) {
      rewrite_.to().set_scope(node.scope);
      if (!node.op->loop) {
        rewrite_.copy(node);
        continue;
      }
      std::vector<Value> operands;
      for (const ValueId& id : node.inputs) operands.push_back(rewrite_.value(id));
      const std::vector<Value> results = loop(node, operands);
      for (size_t o = 0; o < results.size(); ++o) rewrite_.set({node.id, static_cast<int>(o)}, results[o].id());
    }
    return rewrite_.finish();
  }

 private:
  std::vector<Value> loop(const Node& node, const std::vector<Value>& operands) {
    const ScanLayout layout = scan_layout(node.attrs, *node.body, operands.size());
    const auto operand = [&](int i) { return operands[static_cast<size_t>(i)]; };
    std::vector<Value> carries(operands.begin(), operands.begin() + layout.carries), sums(static_cast<size_t>(layout.sums));
    std::vector<std::vector<Value>> results(static_cast<size_t>(layout.results)), before(static_cast<size_t>(layout.carries));
    for (int64_t k = 0; k < layout.length; ++k) {
      const int64_t t = layout.reverse ? layout.length - 1 - k : k;
      std::map<std::string, Value> leaves;
      for (int i = 0; i < layout.carries; ++i) {
        before[static_cast<size_t>(i)].push_back(carries[static_cast<size_t>(i)]);
        leaves["c" + std::to_string(i)] = carries[static_cast<size_t>(i)];
      }
      for (int i = 0; i < layout.steps; ++i) leaves["x" + std::to_string(i)] = step_of(operand(layout.operand_of_step(i)), t);
      for (int i = 0; i < layout.fixed; ++i) leaves["f" + std::to_string(i)] = operand(layout.operand_of_fixed(i));
      for (int i = 0; i < layout.weights; ++i) leaves["w" + std::to_string(i)] = operand(layout.operand_of_weight(i));
      const std::map<ValueId, Value> made = step(*node.body, leaves);
      check_size(node);
      const auto output = [&](const char* letter, int i) { return made.at(body_output(*node.body, letter + std::to_string(i))); };
      for (int i = 0; i < layout.carries; ++i) carries[static_cast<size_t>(i)] = output("c", i);
      for (int i = 0; i < layout.results; ++i) results[static_cast<size_t>(i)].push_back(output("y", i));
      for (int i = 0; i < layout.sums; ++i) {
        Value& sum = sums[static_cast<size_t>(i)];
        sum = sum ? sum + output("s", i) : output("s", i);
      }
    }
    std::vector<Value> all = carries;
    const auto add = [&](std::vector<std::vector<Value>>& sequences) {
      for (std::vector<Value>& steps : sequences) {
        if (layout.reverse) std::ranges::reverse(steps);
        all.push_back(sequence_of(steps));
      }
    };
    add(results);
    all.insert(all.end(), sums.begin(), sums.end());
    add(before);
    return all;
  }

  // The body's values for one step.
  std::map<ValueId, Value> step(const Graph& body, const std::map<std::string, Value>& leaves) {
    std::map<ValueId, Value> made;
    for (const Node& node : body.nodes()) {
      std::vector<Value> results;
      std::vector<Value> operands;
      for (const ValueId& id : node.inputs) operands.push_back(id.node < 0 ? Value() : made.at(id));
      if (node.op->leaf == LeafOp::table) {
        results = {table(body, static_cast<size_t>(attr_int(node, "index")))};
      } else if (is_leaf(node)) {
        results = {leaves.at(attr_string(node, "name"))};
      } else if (node.op->loop) {
        results = loop(node, operands);
      } else {
        results = rewrite_.to().apply_all(node.op->name, operands, node.attrs);
      }
      for (size_t o = 0; o < results.size(); ++o) made[{node.id, static_cast<int>(o)}] = results[o];
    }
    return made;
  }

  // All steps share a body's constants.
  Value table(const Graph& body, size_t index) {
    Value& known = tables_[{&body, index}];
    if (!known) known = rewrite_.to().constant(body.constants()[index]);
    return known;
  }

  void check_size(const Node& node) {
    if (rewrite_.to().nodes().size() <= kMostNodes) return;
    throw Error(ErrorKind::model, {.where = node.scope,
                                   .what = "the steps of a loop are too many to be written out for a GPU",
                                   .expected = "at most " + std::to_string(kMostNodes) + " ops",
                                   .hint = "shorten the sequences, or train with device = \"cpu\", where a loop stays one"});
  }

  Rewrite rewrite_;
  std::map<std::pair<const Graph*, size_t>, Value> tables_;
};

}  // namespace

Graph unroll_scans(const Graph& graph) {
  if (std::ranges::none_of(graph.nodes(), [](const Node& node) { return node.op->loop; })) return graph;
  return Unroll(graph).run();
}

}  // namespace perigee
