#include "src/train/gradient_buckets.h"

#include <algorithm>

namespace perigee {

std::vector<Optimizer::Range> cut_block(const Params& params, size_t bytes) {
  const auto wanted = static_cast<int64_t>(std::max<size_t>(bytes / params.width(), 1));
  std::vector<Optimizer::Range> buckets;
  int64_t end = params.block_elements();
  for (size_t i = params.windows().size(); i-- > 0;) {
    const int64_t begin = i == 0 ? 0 : params.windows()[i].offset;
    const bool rest_is_small = begin <= wanted / 2;
    if (i > 0 && (end - begin < wanted || rest_is_small)) continue;
    buckets.push_back({begin, end});
    end = begin;
  }
  if (buckets.empty()) buckets.push_back({0, end});
  return buckets;
}

}  // namespace perigee
