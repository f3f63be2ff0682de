// k-means: rows in groups around centres (Lloyd 1982), which begin far from each other (k-means++, Arthur and Vassilvitskii 2007).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "src/vectors/vector_rows.h"

namespace perigee {

struct KMeansResult {
  VectorRows centres;
  std::vector<int32_t> groups;  // of each row, from 0
  double inertia = 0;           // the sum of the rows' squared distances from their centres
  int64_t steps = 0;            // of the best try
};
// The best of `tries`. The same bits for any number of threads. Error(usage) for fewer rows than groups.
KMeansResult kmeans(const VectorRows& rows, int64_t groups, int64_t tries, int64_t most_steps, int threads, uint64_t seed,
                    const std::atomic<bool>* stop = nullptr);

}  // namespace perigee
