#include "src/vectors/rows/kmeans.h"

#include <algorithm>
#include <limits>

#include "kernels/pair_loops.h"
#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/core/thread_team.h"
#include "src/vectors/draws.h"

namespace perigee {
namespace {

class Grouping {
 public:
  Grouping(const VectorRows& rows, int64_t groups, ThreadTeam& team, uint64_t seed)
      : rows_(rows),
        team_(team),
        draws_(seed, 0x6B6D, 0),
        distances_(static_cast<size_t>(rows.rows), std::numeric_limits<float>::infinity()) {
    result_.centres = VectorRows(groups, rows.size);
    result_.groups.resize(static_cast<size_t>(rows.rows));
  }

  KMeansResult run(int64_t most_steps, const std::atomic<bool>* stop) {
    first_centres();
    bool moved = true;
    while (moved && result_.steps < most_steps && !(stop != nullptr && *stop)) {
      move_centres();
      moved = assign();
      ++result_.steps;
    }
    result_.inertia = 0;
    for (const float distance : distances_) result_.inertia += static_cast<double>(distance);
    return std::move(result_);
  }

 private:
  void place(int64_t group, int64_t row) { std::copy_n(rows_.row(row), rows_.width, result_.centres.row(group)); }

  // Each one is drawn in proportion to the squared distance from the nearest before it.
  void first_centres() {
    place(0, static_cast<int64_t>(draws_.bits() % static_cast<uint64_t>(rows_.rows)));
    for (int64_t group = 1;; ++group) {
      nearer(group - 1);
      if (group == result_.centres.rows) return;
      double sum = 0;
      for (const float distance : distances_) sum += static_cast<double>(distance);
      double drawn = static_cast<double>(draws_.bits() >> 11) * 0x1p-53 * sum;
      int64_t row = 0;
      while (row + 1 < rows_.rows && (drawn -= static_cast<double>(distances_[static_cast<size_t>(row)])) >= 0) ++row;
      place(group, row);
    }
  }

  // Rows that are nearer to this centre than to theirs join it.
  void nearer(int64_t group) {
    const auto distance = pair_loops(host_isa()).distance;
    each_row([&](int64_t row) {
      const float found = distance(rows_.row(row), result_.centres.row(group), rows_.width);
      const auto i = static_cast<size_t>(row);
      if (found < distances_[i]) distances_[i] = found, result_.groups[i] = static_cast<int32_t>(group);
    });
  }

  // Whether any row changed its group.
  bool assign() {
    const auto distance = pair_loops(host_isa()).distance;
    std::vector<char> changed(static_cast<size_t>(rows_.rows));
    each_row([&](int64_t row) {
      float least = std::numeric_limits<float>::infinity();
      int32_t best = 0;
      for (int64_t group = 0; group < result_.centres.rows; ++group)
        if (const float found = distance(rows_.row(row), result_.centres.row(group), rows_.width); found < least)
          least = found, best = static_cast<int32_t>(group);
      const auto i = static_cast<size_t>(row);
      changed[i] = result_.groups[i] != best;
      result_.groups[i] = best, distances_[i] = least;
    });
    return std::find(changed.begin(), changed.end(), 1) != changed.end();
  }

  // An empty group takes the row that is farthest from its centre.
  void move_centres() {
    const int64_t groups = result_.centres.rows, width = rows_.width;
    std::vector<double> sums(static_cast<size_t>(groups * width));
    std::vector<int64_t> counts(static_cast<size_t>(groups));
    for (int64_t row = 0; row < rows_.rows; ++row) {
      const int64_t group = result_.groups[static_cast<size_t>(row)];
      ++counts[static_cast<size_t>(group)];
      for (int64_t k = 0; k < width; ++k) sums[static_cast<size_t>(group * width + k)] += static_cast<double>(rows_.row(row)[k]);
    }
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t count = counts[static_cast<size_t>(group)];
      if (count == 0) {
        const auto farthest = std::max_element(distances_.begin(), distances_.end());
        *farthest = 0;
        place(group, farthest - distances_.begin());
        continue;
      }
      for (int64_t k = 0; k < width; ++k)
        result_.centres.row(group)[k] = static_cast<float>(sums[static_cast<size_t>(group * width + k)] / static_cast<double>(count));
    }
  }

  template <class Work>
  void each_row(Work&& work) {
    team_.run([&](Team& self) {
      const int64_t rank = self.rank(), size = self.size();
      for (int64_t row = rows_.rows * rank / size; row < rows_.rows * (rank + 1) / size; ++row) work(row);
    });
  }

  const VectorRows& rows_;
  ThreadTeam& team_;
  PartDraws draws_;
  KMeansResult result_;
  std::vector<float> distances_;
};

}  // namespace

KMeansResult kmeans(const VectorRows& rows, int64_t groups, int64_t tries, int64_t most_steps, int threads, uint64_t seed,
                    const std::atomic<bool>* stop) {
  if (groups < 1 || groups > rows.rows)
    throw Error(ErrorKind::usage, {.where = "kmeans",
                                   .what = "there cannot be so many groups",
                                   .got = std::to_string(groups),
                                   .expected = "1 to " + std::to_string(rows.rows) + ", the number of rows"});
  ThreadTeam team(threads);
  KMeansResult best;
  for (int64_t i = 0; i < tries; ++i) {
    KMeansResult result = Grouping(rows, groups, team, seed + static_cast<uint64_t>(i)).run(most_steps, stop);
    if (i == 0 || result.inertia < best.inertia) best = std::move(result);
    if (stop != nullptr && *stop) break;
  }
  return best;
}

}  // namespace perigee
