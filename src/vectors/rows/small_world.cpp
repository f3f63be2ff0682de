// An approximate index: a graph in which each row is linked to near rows, on levels that have fewer rows the higher they are. A search walks from
// a row of the highest level to nearer ones, level by level; on the lowest it keeps `effort` rows in sight.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <queue>
#include <utility>

#include "kernels/pair_loops.h"
#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/vectors/draws.h"
#include "src/vectors/rows/neighbour_index.h"

namespace perigee {
namespace {

constexpr int kMostLevels = 16;

using SmallWorldNear = std::pair<float, int32_t>;  // squared distance and row

class SmallWorld final : public NeighbourIndex {
 public:
  SmallWorld(VectorRows rows, const IndexOptions& options, const std::atomic<bool>* stop)
      : rows_(std::move(rows)), loops_(pair_loops(host_isa())), options_(options), links_(static_cast<size_t>(rows_.rows)) {
    const std::unique_ptr<Sight> sight = take_sight();
    for (int64_t row = 0; row < rows_.rows && !(stop != nullptr && *stop); ++row) put_in(static_cast<int32_t>(row), *sight);
  }

  int64_t size() const override { return rows_.rows; }

  std::vector<NearRow> nearest(std::span<const float> query, int64_t count, int64_t effort) const override {
    std::vector<float> wide(static_cast<size_t>(rows_.width));
    std::copy(query.begin(), query.end(), wide.begin());
    std::unique_ptr<Sight> sight = take_sight();
    SmallWorldNear entry{apart(wide.data(), top_), top_};
    for (int level = level_of(top_); level > 0; --level) entry = walk(wide.data(), entry, level);
    const int64_t most = std::min(count, rows_.rows);
    std::vector<SmallWorldNear> seen = look_around(wide.data(), entry, static_cast<size_t>(std::max(effort, most)), 0, *sight);
    give_back(std::move(sight));
    std::vector<NearRow> found;
    for (size_t i = 0; i < seen.size() && static_cast<int64_t>(i) < most; ++i) found.push_back({seen[i].second, std::sqrt(seen[i].first)});
    return found;
  }

 private:
  // Which rows a search has seen; `now` is another number for each search.
  struct Sight {
    std::vector<uint32_t> seen;
    uint32_t now = 0;
  };

  std::unique_ptr<Sight> take_sight() const {
    const std::lock_guard lock(mutex_);
    if (sights_.empty()) return std::make_unique<Sight>(Sight{.seen = std::vector<uint32_t>(static_cast<size_t>(rows_.rows)), .now = 0});
    std::unique_ptr<Sight> sight = std::move(sights_.back());
    sights_.pop_back();
    return sight;
  }
  void give_back(std::unique_ptr<Sight> sight) const {
    const std::lock_guard lock(mutex_);
    sights_.push_back(std::move(sight));
  }

  float apart(const float* query, int32_t row) const { return loops_.distance(query, rows_.row(row), rows_.width); }
  int level_of(int32_t row) const { return static_cast<int>(links_[static_cast<size_t>(row)].size()) - 1; }
  const std::vector<int32_t>& links(int32_t row, int level) const { return links_[static_cast<size_t>(row)][static_cast<size_t>(level)]; }
  size_t most_links(int level) const { return static_cast<size_t>(level == 0 ? 2 * options_.links : options_.links); }

  // Each level has 1 / links of the rows of the one below.
  int draw_level(int32_t row) const {
    const uint64_t bits = mix_bits(options_.seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(row));
    const double drawn = (static_cast<double>(bits >> 11) + 1) * 0x1p-53;
    return std::min(kMostLevels - 1, static_cast<int>(-std::log(drawn) / std::log(static_cast<double>(options_.links))));
  }

  // To the nearest row that links lead to without a step away.
  SmallWorldNear walk(const float* query, SmallWorldNear at, int level) const {
    for (bool nearer = true; nearer;) {
      nearer = false;
      for (const int32_t row : links(at.second, level))
        if (const SmallWorldNear one{apart(query, row), row}; one < at) at = one, nearer = true;
    }
    return at;
  }

  // The nearest of what is in reach, the nearest first, at most `most`.
  std::vector<SmallWorldNear> look_around(const float* query, SmallWorldNear entry, size_t most, int level, Sight& sight) const {
    if (++sight.now == 0) std::fill(sight.seen.begin(), sight.seen.end(), 0), sight.now = 1;
    std::priority_queue<SmallWorldNear, std::vector<SmallWorldNear>, std::greater<>> open;
    std::priority_queue<SmallWorldNear> best;
    open.push(entry), best.push(entry);
    sight.seen[static_cast<size_t>(entry.second)] = sight.now;
    while (!open.empty() && (best.size() < most || open.top() < best.top())) {
      const int32_t here = open.top().second;
      open.pop();
      for (const int32_t row : links(here, level)) {
        if (std::exchange(sight.seen[static_cast<size_t>(row)], sight.now) == sight.now) continue;
        const SmallWorldNear one{apart(query, row), row};
        if (best.size() == most && best.top() < one) continue;
        open.push(one), best.push(one);
        if (best.size() > most) best.pop();
      }
    }
    std::vector<SmallWorldNear> found(best.size());
    for (size_t i = found.size(); i-- > 0; best.pop()) found[i] = best.top();
    return found;
  }

  // Takes the rows that are nearer to the row than to one taken before: links lead into all directions. The nearest others fill up.
  std::vector<int32_t> choose(const std::vector<SmallWorldNear>& near, size_t most) const {
    std::vector<int32_t> taken, left;
    for (const auto& [distance, row] : near) {
      if (taken.size() == most) break;
      const bool apart_from_all =
          std::none_of(taken.begin(), taken.end(), [&, d = distance, r = row](int32_t other) { return apart(rows_.row(r), other) < d; });
      (apart_from_all ? taken : left).push_back(row);
    }
    for (size_t i = 0; i < left.size() && taken.size() < most; ++i) taken.push_back(left[i]);
    return taken;
  }

  void link(int32_t from, int32_t to, int level) {
    std::vector<int32_t>& linked = links_[static_cast<size_t>(from)][static_cast<size_t>(level)];
    linked.push_back(to);
    if (linked.size() <= most_links(level)) return;
    std::vector<SmallWorldNear> near;
    for (const int32_t row : linked) near.emplace_back(apart(rows_.row(from), row), row);
    std::sort(near.begin(), near.end());
    linked = choose(near, most_links(level));
  }

  void put_in(int32_t row, Sight& sight) {
    const int level = draw_level(row), highest = row == 0 ? -1 : level_of(top_);
    links_[static_cast<size_t>(row)].resize(static_cast<size_t>(level) + 1);
    const float* const query = rows_.row(row);
    SmallWorldNear entry = row == 0 ? SmallWorldNear{} : SmallWorldNear{apart(query, top_), top_};
    for (int above = highest; above > level; --above) entry = walk(query, entry, above);
    for (int at = std::min(level, highest); at >= 0; --at) {
      const std::vector<SmallWorldNear> near = look_around(query, entry, static_cast<size_t>(options_.breadth), at, sight);
      entry = near[0];
      const std::vector<int32_t> chosen = choose(near, static_cast<size_t>(options_.links));
      links_[static_cast<size_t>(row)][static_cast<size_t>(at)] = chosen;
      for (const int32_t other : chosen) link(other, row, at);
    }
    if (level > highest) top_ = row;
  }

  const VectorRows rows_;
  const PairLoops& loops_;
  const IndexOptions options_;
  std::vector<std::vector<std::vector<int32_t>>> links_;  // of each row, on each of its levels
  int32_t top_ = 0;                                       // a row of the highest level
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Sight>> sights_;
};

}  // namespace

std::unique_ptr<NeighbourIndex> small_world(VectorRows rows, const IndexOptions& options, const std::atomic<bool>* stop) {
  if (rows.rows > INT32_MAX)
    throw Error(ErrorKind::resources, {.where = "neighbours",
                                       .what = "there are too many rows for a graph",
                                       .got = std::to_string(rows.rows),
                                       .expected = "at most " + std::to_string(INT32_MAX)});
  auto index = std::make_unique<SmallWorld>(std::move(rows), options, stop);
  if (stop != nullptr && *stop) return nullptr;
  return index;
}

}  // namespace perigee
