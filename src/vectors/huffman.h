// A binary tree over elements in which frequent ones lie near the root (Huffman 1952): hierarchical softmax walks from the root to an element.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/vectors/element_table.h"

namespace perigee {

class HuffmanTree {
 public:
  HuffmanTree() = default;
  explicit HuffmanTree(const ElementTable& elements);  // in the order of falling counts; at least one

  // The inner nodes from the root to the element, numbered from 0, and 1 or 0 for the side that the way takes at each.
  std::span<const int32_t> nodes(int64_t element) const { return {nodes_.data() + begin(element), length(element)}; }
  std::span<const float> sides(int64_t element) const { return {sides_.data() + begin(element), length(element)}; }
  int64_t inner() const { return inner_; }      // how many inner nodes there are
  int64_t longest() const { return longest_; }  // way

 private:
  size_t begin(int64_t element) const { return begins_[static_cast<size_t>(element)]; }
  size_t length(int64_t element) const { return begins_[static_cast<size_t>(element) + 1] - begin(element); }

  std::vector<size_t> begins_;
  std::vector<int32_t> nodes_;
  std::vector<float> sides_;
  int64_t inner_ = 0, longest_ = 0;
};

}  // namespace perigee
