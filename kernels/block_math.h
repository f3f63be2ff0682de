// Arithmetic over flat ranges of the parameter block and of what is laid out like it (gradients, optimiser slots, exchanges), beside
// the kernels of a plan. One table of functions for each element type that a network trains in: who works on blocks chooses it once.
// Sums that leave a range are in double and in a fixed order; ranges may be the same but must not overlap otherwise.
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace perigee {

struct BlockMath {
  Dtype dtype = Dtype::f32;

  void (*add)(const void* left, const void* right, int64_t n, void* to) = nullptr;         // to = left + right
  void (*add_change)(const void* before, const void* now, int64_t n, void* to) = nullptr;  // to += now - before
  void (*approach)(const void* from, double share, int64_t n, void* to) = nullptr;         // to += share * (from - to)
  bool (*scale)(const void* from, double factor, int64_t n, void* to) = nullptr;           // to = from * factor; as finite(to)
  void (*divide)(const void* from, double by, int64_t n, void* to) = nullptr;
  void (*fill)(double value, int64_t n, void* to) = nullptr;
  bool (*finite)(const void* from, int64_t n) = nullptr;  // false when something is NaN or infinite

  double (*sum)(const void* from, int64_t n, double start) = nullptr;  // ((start + from[0]) + from[1]) + ...
  double (*sum_of_squares)(const void* from, int64_t n) = nullptr;
  void (*sizes)(const void* from, int64_t n, double* absolute, double* square) = nullptr;  // sums, one element after the other
  int64_t (*largest)(const void* from, int64_t n) = nullptr;                               // index of the first of the largest

  // Over the elements vector[members[i]]: those below zero become zero...
  void (*cut_negative)(void* vector, const int64_t* members, int64_t n) = nullptr;
  // ... or their length, when it is not in [low, high], moves by `rate` of the way into it.
  void (*limit_length)(void* vector, const int64_t* members, int64_t n, double low, double high, double rate) = nullptr;
};

// Elements are f32 or f64.
const BlockMath& block_math(Dtype dtype);

}  // namespace perigee
