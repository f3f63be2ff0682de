#include "src/graph/passes/recompute.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "src/graph/op.h"
#include "src/graph/passes/rewrite.h"
#include "src/tensor/bytes.h"

namespace perigee {
namespace {

constexpr double kCheap = 16;      // operations an element
constexpr size_t kCheapShare = 8;  // a result of at most this part of its node's largest is not worth a second run

size_t largest_result(const Node& node) {
  size_t most = 0;
  for (const Type& type : node.outputs) most = std::max(most, byte_size(type));
  return most;
}

double node_flops(const Graph& graph, const Node& node) {
  if (is_leaf(node) || node.op->alias) return 0;
  const OperandTypes types(graph, node);
  if (node.op->flops) return node.op->flops(types.call());
  double elements = 0;
  for (const Type& type : node.outputs) elements += static_cast<double>(type.shape.elements());
  return elements;
}

// Operations for each element that is read or written.
bool is_cheap(const Graph& graph, const Node& node) {
  double elements = 1;
  for (const Type& type : node.outputs) elements = std::max(elements, static_cast<double>(type.shape.elements()));
  for (const ValueId& id : node.inputs)
    if (id.node >= 0) elements = std::max(elements, static_cast<double>(graph.type(id).shape.elements()));
  return node_flops(graph, node) <= kCheap * elements;
}

// Everything that `wanted` nodes depend on, themselves included.
std::vector<bool> ancestors(const Graph& graph, std::vector<bool> wanted) {
  for (size_t i = wanted.size(); i-- > 0;)
    for (const ValueId& id : graph.nodes()[i].inputs)
      if (wanted[i] && id.node >= 0) wanted[static_cast<size_t>(id.node)] = true;
  return wanted;
}

}  // namespace

double flops_of(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes()) sum += node_flops(graph, node);
  return sum;
}

RecomputeAnalysis::RecomputeAnalysis(const Graph& graph, const std::function<bool(const Node&)>& allowed) : graph_(graph) {
  const size_t count = graph.nodes().size();
  std::vector<bool> needed(count), results(count);
  for (const NamedValue& output : graph.outputs()) {
    const auto node = static_cast<size_t>(output.value.node);
    needed[node] = true;
    if (!output.name.starts_with("grad:")) results[node] = true;
  }
  for (const Assignment& assignment : graph.assignments())
    needed[static_cast<size_t>(assignment.value.node)] = results[static_cast<size_t>(assignment.value.node)] = true;
  forward_ = ancestors(graph, results);
  backward_ = ancestors(graph, needed);
  saved_.resize(count), may_drop_.resize(count), cheap_.resize(count), bytes_.resize(count);
  for (const Node& node : graph.nodes()) {
    const auto i = static_cast<size_t>(node.id);
    if (forward_[i]) backward_[i] = false;
    may_drop_[i] = forward_[i] && !results[i] && !is_leaf(node) && !node.op->effects && (!allowed || allowed(node));
    cheap_[i] = may_drop_[i] && is_cheap(graph, node);
    for (const Type& type : node.outputs)
      if (!is_leaf(node) && !node.op->alias) bytes_[i] += byte_size(type);
    for (const ValueId& id : node.inputs)
      if (backward_[i] && id.node >= 0 && forward_[static_cast<size_t>(id.node)]) saved_[static_cast<size_t>(id.node)] = true;
  }
}

bool RecomputeAnalysis::is_dropped(const Dropped& dropped, ValueId id) const {
  if (id.node < 0 || !dropped[static_cast<size_t>(id.node)]) return false;
  return byte_size(graph_.type(id)) * kCheapShare > largest_result(graph_.node(id));
}

Dropped RecomputeAnalysis::cheap(double share, int depth, const std::vector<bool>& stays) const {
  // From the front: what can be made again from values that are kept anyway, and through how many ops. Windows cost nothing and pass the
  // question on.
  constexpr int kNot = 1 << 20;
  std::vector<int> through(graph_.nodes().size(), kNot);
  Dropped again(graph_.nodes().size());
  std::vector<int> found;
  for (const Node& node : graph_.nodes()) {
    const auto i = static_cast<size_t>(node.id);
    int deepest = 0;
    for (const ValueId& id : node.inputs)
      if (id.node >= 0 && byte_size(graph_.type(id)) * kCheapShare > largest_result(graph_.node(id)))
        deepest = std::max(deepest, through[static_cast<size_t>(id.node)]);
    const int own = deepest + (bytes_[i] > 0 ? 1 : 0);
    again[i] = cheap_[i] && !stays[i] && own <= depth;
    if (again[i]) through[i] = own;
    else if (saved_[i] || stays[i] || is_leaf(node) || (node.op->alias && deepest == 0)) through[i] = 0;
    if (again[i] && bytes_[i] > 0) found.push_back(node.id);
  }
  std::stable_sort(found.begin(), found.end(),
                   [&](int a, int b) { return bytes_[static_cast<size_t>(a)] > bytes_[static_cast<size_t>(b)]; });
  size_t total = 0, sum = 0;
  for (const int id : found) total += bytes_[static_cast<size_t>(id)];
  for (const int id : found) {
    if (static_cast<double>(sum) >= share * static_cast<double>(total)) again[static_cast<size_t>(id)] = false;
    sum += bytes_[static_cast<size_t>(id)];
  }
  return again;
}

// Where segments begin, ascending: at equal shares of the bytes that backward reads, moved to where the fewest bytes are alive.
std::vector<int> RecomputeAnalysis::cuts(int segments) const {
  const int count = static_cast<int>(graph_.nodes().size());
  std::vector<int64_t> alive(static_cast<size_t>(count) + 1), before(static_cast<size_t>(count) + 1);
  std::vector<int> last_use(static_cast<size_t>(count), -1);
  for (int i = count - 1; i >= 0; --i) {  // through windows
    const Node& node = graph_.nodes()[static_cast<size_t>(i)];
    if (!forward_[static_cast<size_t>(i)]) continue;
    const int last = node.op->alias ? std::max(i, last_use[static_cast<size_t>(i)]) : i;
    for (const ValueId& id : node.inputs)
      if (id.node >= 0) last_use[static_cast<size_t>(id.node)] = std::max(last_use[static_cast<size_t>(id.node)], last);
  }
  for (int i = 0; i < count; ++i) {
    if (last_use[static_cast<size_t>(i)] < 0) continue;
    alive[static_cast<size_t>(i) + 1] += static_cast<int64_t>(bytes_[static_cast<size_t>(i)]);
    alive[static_cast<size_t>(last_use[static_cast<size_t>(i)]) + 1] -= static_cast<int64_t>(bytes_[static_cast<size_t>(i)]);
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    before[at + 1] = before[at] + (saved_[at] ? static_cast<int64_t>(bytes_[at]) : 0);
  }
  std::vector<int> result;
  const int64_t total = before.back();
  for (int s = 1; s < segments; ++s) {
    const int64_t target = total * s / segments, reach = total / segments / 3;
    const auto off = [&](int i) { return std::abs(before[static_cast<size_t>(i)] - target); };
    int best = -1;
    for (int i = result.empty() ? 1 : result.back() + 1; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      if (!forward_[at] || off(i) > reach) continue;
      const int64_t better = best < 0 ? -1 : alive[at] - alive[static_cast<size_t>(best)];
      if (better < 0 || (better == 0 && off(i) < off(best))) best = i;
    }
    if (best >= 0) result.push_back(best);
  }
  return result;
}

Dropped RecomputeAnalysis::segments(int segments, double share, int cheap_depth) const {
  const std::vector<int> begins = cuts(segments);
  const auto treated = static_cast<int>(share * static_cast<double>(begins.size()) + 0.5);
  const auto segment_of = [&](int node) { return static_cast<int>(std::upper_bound(begins.begin(), begins.end(), node) - begins.begin()); };
  std::vector<bool> crosses(graph_.nodes().size());
  for (const Node& node : graph_.nodes())
    for (const ValueId& id : node.inputs)
      if (id.node >= 0 && forward_[static_cast<size_t>(node.id)] && segment_of(id.node) != segment_of(node.id))
        for (int at = id.node; at >= 0 && !crosses[static_cast<size_t>(at)];) {  // of a window, what it looks at
          crosses[static_cast<size_t>(at)] = true;
          const Node& from = graph_.nodes()[static_cast<size_t>(at)];
          at = from.op->alias ? from.inputs[0].node : -1;
        }
  Dropped dropped = cheap_depth > 0 ? cheap(1, cheap_depth, crosses) : Dropped(graph_.nodes().size());
  for (size_t i = 0; i < dropped.size(); ++i)
    if (may_drop_[i] && !crosses[i] && segment_of(static_cast<int>(i)) < treated) dropped[i] = true;
  return dropped;
}

Graph RecomputeAnalysis::rewrite(const Dropped& dropped) const {
  Rewrite rewrite(graph_);
  // By old node: its second run, which stands just before its first use, so that it is not held for longer. What is cheap runs once for the
  // ops of a segment that run again, and once more for the backward pass, and is not held in between.
  std::map<int, int> again, for_backward;
  const std::function<ValueId(ValueId, bool)> late = [&](ValueId id, bool backward) {
    if (!is_dropped(dropped, id)) return rewrite.moved(id);
    auto& runs = backward && cheap_[static_cast<size_t>(id.node)] ? for_backward : again;
    auto known = runs.find(id.node);
    if (known == runs.end()) {
      Node same = graph_.node(id);
      for (ValueId& input : same.inputs) input = late(input, backward && cheap_[static_cast<size_t>(id.node)]);
      known = runs.emplace(id.node, rewrite.to().append(std::move(same)).node).first;
    }
    return ValueId{known->second, id.output};
  };
  for (const Node& node : graph_.nodes()) {
    if (!backward_[static_cast<size_t>(node.id)]) {
      rewrite.copy(node);
      continue;
    }
    Node same = node;
    for (ValueId& id : same.inputs) id = late(id, true);
    const int id = rewrite.to().append(std::move(same)).node;
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) rewrite.set({node.id, o}, {id, o});
  }
  return rewrite.finish();
}

}  // namespace perigee
