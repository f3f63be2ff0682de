// Small exchanges inside kernels: every member's numbers, seen by all, in the order of ranks. Static, so that each file that is
// compiled for an instruction set keeps its own copy: the linker would share one among all of them.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/kernel.h"

namespace perigee {

inline constexpr size_t kGatherBytes = size_t{256} << 10;  // what one exchange may take of the team's shared memory

// Calls use(first, count, of) for consecutive parts of `values`; of(rank) points to that member's `count` numbers from `first`.
// Every member calls with the same n.
template <class Use>
static void team_gather(Team* team, const double* values, int64_t n, Use use) {
  if (team == nullptr || team->size() == 1) {
    use(int64_t{0}, n, [&](int) { return values; });
    return;
  }
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(kGatherBytes / sizeof(double)) / team->size());
  for (int64_t first = 0; first < n; first += most) {
    const int64_t count = std::min(most, n - first);
    auto* shared = static_cast<double*>(team->shared(static_cast<size_t>(count * team->size()) * sizeof(double)));
    std::memcpy(shared + team->rank() * count, values + first, static_cast<size_t>(count) * sizeof(double));
    team->barrier();
    use(first, count, [&](int rank) { return static_cast<const double*>(shared + rank * count); });
  }
}

static inline int team_size(const Team* team) { return team == nullptr ? 1 : team->size(); }

// values[i] becomes its sum over the team.
static inline void team_sum(Team* team, double* values, int64_t n) {
  if (team_size(team) == 1) return;
  team_gather(team, values, n, [&](int64_t first, int64_t count, auto of) {
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int rank = 0; rank < team->size(); ++rank) sum += of(rank)[i];
      values[first + i] = sum;
    }
  });
}

// Merges each member's count, mean and sum of squared deviations per channel. `moments` holds C means, then C sums; afterwards the
// team's means and variances. In double, so that going through plain sums of squares loses nothing that a float holds. Returns the
// team's count.
static inline double team_moments(Team* team, double count, double* moments, int64_t channels) {
  double total = count;
  team_sum(team, &total, 1);
  const double safe = std::max(total, 1.0);
  double* mean = moments;
  double* squares = moments + channels;
  if (team_size(team) > 1) {
    // Weighted sums, so that members without examples add nothing.
    for (int64_t c = 0; c < channels; ++c) {
      squares[c] += count * mean[c] * mean[c];
      mean[c] *= count;
    }
    team_sum(team, moments, 2 * channels);
    for (int64_t c = 0; c < channels; ++c) {
      mean[c] /= safe;
      squares[c] = std::max(0.0, squares[c] - safe * mean[c] * mean[c]);
    }
  }
  for (int64_t c = 0; c < channels; ++c) squares[c] /= safe;
  return total;
}

}  // namespace perigee
