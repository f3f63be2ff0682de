#include <algorithm>
#include <numeric>

#include "src/graph/plan_compiler.h"

namespace perigee {

size_t place_buffers(std::vector<ArenaBuffer>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Large ones first: what is placed late must fit into gaps, and small things fit better.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;
  size_t total = 0;
  for (size_t index : order) {
    ArenaBuffer& buffer = buffers[index];
    std::vector<std::pair<size_t, size_t>> taken;
    for (size_t other : placed) {
      const ArenaBuffer& b = buffers[other];
      if (b.first_step <= buffer.last_step && buffer.first_step <= b.last_step) taken.emplace_back(b.offset, b.offset + b.bytes);
    }
    std::sort(taken.begin(), taken.end());
    size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + buffer.bytes <= begin) break;
      offset = std::max(offset, end);
    }
    buffer.offset = offset;
    total = std::max(total, offset + buffer.bytes);
    placed.push_back(index);
  }
  return total;
}

}  // namespace perigee
