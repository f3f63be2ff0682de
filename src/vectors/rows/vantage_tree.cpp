// An exact index: each node has a row, the vantage point, and parts the others into those nearer to it than their median and those further away.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "kernels/pair_loops.h"
#include "src/core/host_isa.h"
#include "src/vectors/draws.h"
#include "src/vectors/rows/neighbour_index.h"

namespace perigee {
namespace {

constexpr int64_t kLeaf = 16;       // rows that are looked at one by one
constexpr float kRounding = 1e-5f;  // of a distance, relatively: pruning allows for it

using VantageTreeNear = std::pair<float, int64_t>;  // distance and row

class VantageTree final : public NeighbourIndex {
 public:
  VantageTree(VectorRows rows, uint64_t seed, const std::atomic<bool>* stop)
      : rows_(std::move(rows)), loops_(pair_loops(host_isa())), order_(static_cast<size_t>(rows_.rows)), radius_(order_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    build(seed, stop);
  }

  int64_t size() const override { return rows_.rows; }

  std::vector<NearRow> nearest(std::span<const float> query, int64_t count, int64_t) const override {
    std::vector<float> wide(static_cast<size_t>(rows_.width));
    std::copy(query.begin(), query.end(), wide.begin());
    Search search{.query = wide.data(), .wanted = static_cast<size_t>(std::clamp<int64_t>(count, 0, rows_.rows)), .best = {}};
    if (search.wanted > 0) visit(0, rows_.rows, search);
    std::vector<NearRow> found(search.best.size());
    for (size_t i = found.size(); i-- > 0; search.best.pop()) found[i] = {search.best.top().second, search.best.top().first};
    return found;
  }

 private:
  struct Search {
    const float* query;
    size_t wanted;
    std::priority_queue<VantageTreeNear> best;  // the furthest on top
    float reach() const { return best.size() < wanted ? INFINITY : best.top().first; }
  };

  float distance(const float* a, int64_t row) const { return std::sqrt(loops_.distance(a, rows_.row(row), rows_.width)); }

  // Rows [begin, end) of the order are a node: the first is its vantage point, the nearer half follows.
  void build(uint64_t seed, const std::atomic<bool>* stop) {
    PartDraws draws(seed, 0, 0);
    std::vector<std::pair<int64_t, int64_t>> open{{0, rows_.rows}};
    std::vector<VantageTreeNear> apart;
    while (!open.empty() && !(stop != nullptr && *stop)) {
      const auto [begin, end] = open.back();
      open.pop_back();
      if (end - begin <= kLeaf) continue;
      const int64_t chosen = begin + draws.below(static_cast<uint32_t>(end - begin));
      std::swap(order_[static_cast<size_t>(begin)], order_[static_cast<size_t>(chosen)]);
      const float* const vantage = rows_.row(order_[static_cast<size_t>(begin)]);
      apart.clear();
      for (int64_t i = begin + 1; i < end; ++i)
        apart.emplace_back(distance(vantage, order_[static_cast<size_t>(i)]), order_[static_cast<size_t>(i)]);
      const int64_t middle = middle_of(begin, end);
      const auto half = apart.begin() + (middle - begin - 1);
      std::nth_element(apart.begin(), half, apart.end());
      for (size_t i = 0; i < apart.size(); ++i) order_[static_cast<size_t>(begin) + 1 + i] = apart[i].second;
      radius_[static_cast<size_t>(begin)] = half->first;
      open.emplace_back(begin + 1, middle);
      open.emplace_back(middle, end);
    }
  }

  static int64_t middle_of(int64_t begin, int64_t end) { return begin + 1 + (end - begin - 1) / 2; }

  void look_at(int64_t row, float apart, Search& search) const {
    const VantageTreeNear one{apart, row};
    if (search.best.size() < search.wanted) search.best.push(one);
    else if (one < search.best.top()) search.best.pop(), search.best.push(one);
  }

  // Within the radius are rows [begin + 1, middle). As deep as the logarithm of the rows.
  void visit(int64_t begin, int64_t end, Search& search) const {
    if (end - begin <= kLeaf) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = order_[static_cast<size_t>(i)];
        look_at(row, distance(search.query, row), search);
      }
      return;
    }
    const int64_t row = order_[static_cast<size_t>(begin)], middle = middle_of(begin, end);
    const float apart = distance(search.query, row), radius = radius_[static_cast<size_t>(begin)];
    look_at(row, apart, search);
    const float slack = kRounding * (apart + radius);
    const auto inside = [&] {
      if (apart - radius - slack <= search.reach()) visit(begin + 1, middle, search);
    };
    if (apart < radius) inside();
    if (radius - apart - slack <= search.reach()) visit(middle, end, search);
    if (apart >= radius) inside();
  }

  const VectorRows rows_;
  const PairLoops& loops_;
  std::vector<int64_t> order_;
  std::vector<float> radius_;  // by the place of the node's first row
};

}  // namespace

std::unique_ptr<NeighbourIndex> vantage_tree(VectorRows rows, uint64_t seed, const std::atomic<bool>* stop) {
  auto tree = std::make_unique<VantageTree>(std::move(rows), seed, stop);
  if (stop != nullptr && *stop) return nullptr;
  return tree;
}

}  // namespace perigee
