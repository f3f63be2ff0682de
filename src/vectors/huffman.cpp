#include "src/vectors/huffman.h"

#include <algorithm>

namespace perigee {

// Leaves lie sorted, and joined nodes come in rising order: two queues instead of a heap.
HuffmanTree::HuffmanTree(const ElementTable& elements) {
  const int64_t leaves = elements.size();
  inner_ = leaves - 1;
  std::vector<int64_t> counts(static_cast<size_t>(2 * leaves));
  std::vector<int32_t> parents(static_cast<size_t>(2 * leaves), -1);
  std::vector<uint8_t> second(static_cast<size_t>(2 * leaves));
  for (int64_t i = 0; i < leaves; ++i) counts[static_cast<size_t>(i)] = elements.count(i);
  int64_t leaf = leaves - 1, node = leaves;
  for (int64_t made = leaves; made < 2 * leaves - 1; ++made) {
    for (int side = 0; side < 2; ++side) {
      const bool take_leaf = leaf >= 0 && (node == made || counts[static_cast<size_t>(leaf)] < counts[static_cast<size_t>(node)]);
      const auto taken = static_cast<size_t>(take_leaf ? leaf-- : node++);
      counts[static_cast<size_t>(made)] += counts[taken];
      parents[taken] = static_cast<int32_t>(made);
      second[taken] = static_cast<uint8_t>(side);
    }
  }
  begins_.push_back(0);
  std::vector<int32_t> way;
  for (int64_t i = 0; i < leaves; ++i) {
    way.clear();
    for (auto at = static_cast<int32_t>(i); parents[static_cast<size_t>(at)] >= 0; at = parents[static_cast<size_t>(at)]) way.push_back(at);
    for (auto at = way.rbegin(); at != way.rend(); ++at) {
      nodes_.push_back(static_cast<int32_t>(2 * leaves - 2 - parents[static_cast<size_t>(*at)]));
      sides_.push_back(second[static_cast<size_t>(*at)]);
    }
    longest_ = std::max(longest_, static_cast<int64_t>(way.size()));
    begins_.push_back(nodes_.size());
  }
}

}  // namespace perigee
