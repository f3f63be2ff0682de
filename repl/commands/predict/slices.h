// Work that is cut into slices for several processes of this program: `eval --workers N` and `predict --workers N`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace perigee {

struct Slice {
  int64_t index = 0, count = 1;
  // Its part of `n` things: [first, second).
  std::pair<int64_t, int64_t> of(int64_t n) const { return {n * index / count, n * (index + 1) / count}; }
};
// "2/4". Error(usage).
Slice parse_slice(const std::string& text);

// Runs `perigee ARGUMENTS --slice i/count` for each i at the same time, each with its output in a file of its own, and hands the outputs to
// `take` in order. A process that is killed is started once more. Error of the kind with which a process ends; where it ends with
// kPartlyFailed and a kind, its output counts, and the greatest such kind comes back (else 0).
inline constexpr int kPartlyFailed = 64;
int run_slices(const std::vector<std::string>& arguments, int64_t count, const std::function<void(std::FILE* output)>& take);

}  // namespace perigee
