// The cases by which every op is tested: gradient_test.cpp checks each differentiable op against finite differences in float64,
// tests/kernels/parity_test.cpp compares every kernel of the op with `ref` in many memory layouts and dtypes. An op without
// cases fails both.
//
// To cover a new op, add cases to the file of its family, or make tests/graph/cases_<name>.cpp, which is found by the op's name in
// kernels/meson.build:
//
//     void make(Cases& cases) {
//       const int64_t n = cases.pick(1, 5);                                   // sizes differ from seed to seed: keep them small,
//       cases.add("maxpool2d", {real({n, 3, 9, 7})}, R"({"kernel":[2,2]})");  // odd ones included
//     }
//     extern const CaseFamily cases_pool;
//     const CaseFamily cases_pool = {"pool", make};
//
// Operands: real(shape, low, high) f32 (f64 in the gradient check); fixed(...) the same without a gradient; index(shape, n) i64 in
// [0, n); truth(shape); integers(dtype, shape, low, high); absent(). `real` values are all different, with gaps wide enough for
// finite differences to see no kink of relu, max, abs; give low and high to stay inside a domain.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/dtype_kinds.h"
#include "src/graph/graph.h"

namespace perigee {

struct CaseOperand {
  Type type;
  double low = -2, high = 2;
  bool present = true;
  bool gradient = true;    // is differentiated with respect to
  bool ascending = false;  // whole numbers as f32, in order along the last axis
};

struct OpCase {
  std::string op;
  std::vector<CaseOperand> inputs;
  Json attrs;
  double tolerance = 2e-5;             // of kernels in f32 against ref in f64, relative to the largest magnitude of the output
  double gradient_tolerance = 1e-5;    // relative
  bool gradient = true;                // false: too large, or not smooth here
  size_t differentiable_outputs = 99;  // the first so many; the others (statistics of batch_norm) have no gradient
  std::string text() const;            // "conv2d(f32[2x3x5x5], f32[4x3x3x3]) {...}"
};

inline CaseOperand real(const Shape& shape, double low = -2, double high = 2) { return {{Dtype::f32, shape}, low, high}; }
inline CaseOperand fixed(const Shape& shape, double low = -2, double high = 2) { return {{Dtype::f32, shape}, low, high, true, false}; }
inline CaseOperand integers(Dtype dtype, const Shape& shape, double low, double high) { return {{dtype, shape}, low, high, true, false}; }
inline CaseOperand index(const Shape& shape, int64_t n) { return integers(Dtype::i64, shape, 0, static_cast<double>(n)); }
// 16 bits; not differentiated, since finite differences would see the rounding.
inline CaseOperand half(Dtype dtype, const Shape& shape, double low = -2, double high = 2) {
  return {{dtype, shape}, low, high, true, false};
}
inline CaseOperand truth(const Shape& shape) { return integers(Dtype::boolean, shape, 0, 2); }
// With which sequence each step of a row goes, several one after the other: f32 numbers in [low, high) that never fall along the last axis.
inline CaseOperand runs(const Shape& shape, double low, double high) { return {{Dtype::f32, shape}, low, high, true, false, true}; }
inline CaseOperand absent() { return {{}, 0, 0, false, false}; }

class Cases {
 public:
  explicit Cases(uint64_t seed) : random_(seed) {}

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }  // both included
  // `attrs` is JSON text. The returned reference lasts until the next call.
  OpCase& add(std::string op, std::vector<CaseOperand> inputs, const std::string& attrs = "");
  const std::vector<OpCase>& all() const { return cases_; }

 private:
  std::mt19937_64 random_;
  std::vector<OpCase> cases_;
};

struct CaseFamily {
  const char* name;
  void (*make)(Cases&);
};

std::span<const CaseFamily* const> case_families();  // generated
// Every family's cases with sizes by `seed`.
std::vector<OpCase> all_cases(uint64_t seed);
// Values for an operand, contiguous; f64 instead of f32 when `wide`.
Tensor case_values(const CaseOperand& operand, bool wide, std::mt19937_64& random);

}  // namespace perigee
