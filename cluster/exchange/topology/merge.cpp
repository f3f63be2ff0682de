#include "cluster/exchange/topology/merge.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>

namespace perigee {
namespace {

// Chunks lie wherever their frame lies in the receive buffer; memcpy of one element compiles to an unaligned vector load.
template <class T>
T load(const std::byte* p, size_t i) {
  T value;
  std::memcpy(&value, p + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* p, size_t i, T value) {
  std::memcpy(p + i * sizeof(T), &value, sizeof(T));
}

template <class T>
void add(std::byte* out, const std::byte* a, const std::byte* b, size_t bytes) {
  assert(bytes % sizeof(T) == 0);
  const size_t n = bytes / sizeof(T);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) store(out, i, load<T>(a, i) + load<T>(b, i));
}

}  // namespace

Merge merge_sums(Dtype dtype) {
  assert(dtype == Dtype::f32 || dtype == Dtype::f64);
  return dtype == Dtype::f64 ? add<double> : add<float>;
}

void merge_maxima(std::byte* out, const std::byte* a, const std::byte* b, size_t bytes) {
  assert(bytes % sizeof(int64_t) == 0);
  const size_t n = bytes / sizeof(int64_t);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    const int64_t x = load<int64_t>(a, i), y = load<int64_t>(b, i);
    store(out, i, x > y ? x : y);
  }
}

}  // namespace perigee
