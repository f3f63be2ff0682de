#include "cluster/exchange/topology/summation.h"

#include <cassert>

namespace perigee {
namespace {

int join(Summation& sum, int left, int right) {
  const int parent = static_cast<int>(sum.nodes.size());
  sum.nodes[static_cast<size_t>(left)] = {.parent = parent, .sibling = right, .left = true};
  sum.nodes[static_cast<size_t>(right)] = {.parent = parent, .sibling = left, .left = false};
  sum.nodes.emplace_back();
  return parent;
}

struct Root {
  int node;
  Partial subtree;
};

void output(Summation& sum, const Root& root) {
  sum.nodes[static_cast<size_t>(root.node)].output = sum.outputs++;
  sum.subtrees.push_back(root.subtree);
}

struct Build {
  Summation& sum;
  std::span<const Partial> inputs;
  std::vector<int> starts;  // the input that begins at each leaf
  std::vector<Root> roots;  // what cannot be added further

  // The node that holds the sum of [first, first + count), or -1.
  int node(int first, int count) {
    const int own = starts[static_cast<size_t>(first)];
    if (own >= 0 && inputs[static_cast<size_t>(own)].count == count) return own;
    if (count == 1) return -1;
    const int half = count / 2;
    const int left = node(first, half), right = node(first + half, count - half);
    if (left >= 0 && right >= 0) return join(sum, left, right);
    if (left >= 0) roots.push_back({left, {first, half}});
    if (right >= 0) roots.push_back({right, {first + half, count - half}});
    return -1;
  }
};

}  // namespace

Summation chain_sum(int inputs) {
  assert(inputs >= 1);
  Summation sum;
  sum.inputs = inputs;
  sum.nodes.reserve(static_cast<size_t>(inputs) * 2);
  sum.nodes.resize(static_cast<size_t>(inputs));
  int node = 0;
  for (int i = 1; i < inputs; ++i) node = join(sum, node, i);
  output(sum, {node, {0, inputs}});
  return sum;
}

Summation fixed_tree_sum(std::span<const Partial> inputs, int leaves) {
  assert(!inputs.empty());
  Summation sum;
  sum.inputs = static_cast<int>(inputs.size());
  sum.nodes.reserve(inputs.size() * 2);
  sum.nodes.resize(inputs.size());
  Build build{.sum = sum, .inputs = inputs, .starts = std::vector<int>(static_cast<size_t>(leaves), -1)};
  std::vector<int> empty;
  for (int i = 0; i < sum.inputs; ++i) {
    const Partial& input = inputs[static_cast<size_t>(i)];
    assert(input.first >= 0 && input.count >= 0 && input.first + input.count <= leaves);
    if (input.count == 0) {
      empty.push_back(i);
      continue;
    }
    assert(build.starts[static_cast<size_t>(input.first)] < 0 && "two inputs hold the same leaf");
    build.starts[static_cast<size_t>(input.first)] = i;
  }
  const int whole = leaves > 0 ? build.node(0, leaves) : -1;
  if (whole >= 0) build.roots.push_back({whole, {0, leaves}});
  for (const int node : empty) {
    if (build.roots.empty()) {
      build.roots.push_back({node, {.first = 0, .count = 0}});
    } else {
      build.roots.front().node = join(sum, build.roots.front().node, node);
    }
  }
  for (const Root& root : build.roots) output(sum, root);
  return sum;
}

}  // namespace perigee
