// Rows are a few hundred numbers and lie in the first-level cache: what counts is how often each is loaded. Eight outputs at a time stay in
// registers while all inputs pass, once for the products, once for the changes of both.
#include "kernels/pair_loops.h"

#include "kernels/cpu/vector_math.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr int kBlock = kLanes == 16 ? 8 : 6;  // outputs at a time: twice as many vectors and a few more fit into the registers
constexpr int64_t kRow = 8;                   // numbers between the rows of products are a multiple of it

inline int64_t row_of(int64_t outputs) { return (outputs + kRow - 1) / kRow * kRow; }

struct Whole {};  // a vector of kLanes numbers
struct Part {     // the first numbers of a vector, a multiple of kPairAlignment
  int64_t count = 0;
};

// Calls take(offset, Whole) for each whole vector of a row, then take(offset, Part) where numbers are left.
template <class Take>
inline void along(int64_t width, Take&& take) {
  int64_t v = 0;
  for (; v + kLanes <= width; v += kLanes) take(v, Whole());
  if constexpr (kLanes > kPairAlignment)
    if (v < width) take(v, Part{width - v});
}

inline Floats load_at(const float* x, Whole) { return load(x); }
inline void store_at(float* x, Floats v, Whole) { store(x, v); }
#if defined(__AVX512F__)
inline Floats load_at(const float* x, Part part) { return load_part(x, part.count); }
inline void store_at(float* x, Floats v, Part part) { store_part(x, v, part.count); }
#elif defined(__AVX2__)
// Half a vector: stores behind a mask are slow on many processors.
static_assert(kLanes == 2 * kPairAlignment);
inline Floats load_at(const float* x, Part) { return reinterpret_cast<Floats>(_mm256_zextps128_ps256(_mm_loadu_ps(x))); }
inline void store_at(float* x, Floats v, Part) { _mm_storeu_ps(x, _mm256_castps256_ps128(reinterpret_cast<__m256>(v))); }
#endif

inline __m128 quarter(Floats v) {
#if defined(__AVX512F__)
  const __m512 whole = reinterpret_cast<__m512>(v);
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(whole), _mm512_extractf32x8_ps(whole, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  const __m256 half = reinterpret_cast<__m256>(v);
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#else
  return reinterpret_cast<__m128>(v);
#endif
}

// The sums of N vectors' lanes.
template <int N>
inline void store_sums(const Floats (&v)[N], float* out) {
  __m128 q[(N + 3) / 4 * 4];
#pragma GCC unroll 16
  for (int n = 0; n < (N + 3) / 4 * 4; ++n) q[n] = n < N ? quarter(v[n < N ? n : 0]) : _mm_setzero_ps();
#pragma GCC unroll 16
  for (int n = 0; n < N; n += 4) {
    const __m128 sums = _mm_hadd_ps(_mm_hadd_ps(q[n], q[n + 1]), _mm_hadd_ps(q[n + 2], q[n + 3]));
    std::memcpy(out + n, &sums, sizeof(float) * (N - n < 4 ? N - n : 4));
  }
}

template <int N>
void products_of(const PairStep& s, int64_t from, float* products) {
  const float* o[N];
#pragma GCC unroll 16
  for (int n = 0; n < N; ++n) o[n] = s.outputs[from + n];
  const int64_t row = row_of(s.output_count);
  int64_t i = 0;
  for (; i + 2 <= s.input_count; i += 2) {
    const float *x = s.inputs[i], *y = s.inputs[i + 1];
    Floats a[N] = {}, b[N] = {};
    const auto take = [&](int64_t v, auto part) __attribute__((always_inline)) {
      const Floats xv = load_at(x + v, part), yv = load_at(y + v, part);
#pragma GCC unroll 16
      for (int n = 0; n < N; ++n) {
        const Floats w = load_at(o[n] + v, part);
        a[n] += xv * w, b[n] += yv * w;
      }
    };
    along(s.width, take);
    store_sums<N>(a, products + i * row + from);
    store_sums<N>(b, products + (i + 1) * row + from);
  }
  if (i < s.input_count) {
    const float* x = s.inputs[i];
    Floats a[N] = {};
    const auto take = [&](int64_t v, auto part) __attribute__((always_inline)) {
      const Floats xv = load_at(x + v, part);
#pragma GCC unroll 16
      for (int n = 0; n < N; ++n) a[n] += xv * load_at(o[n] + v, part);
    };
    along(s.width, take);
    store_sums<N>(a, products + i * row + from);
  }
}

// Both sets move. `held`: what the inputs move by is added up in input_changes, which other blocks of outputs have begun or will go on with.
template <int N, bool kHeld>
void changes_of(const PairStep& s, int64_t from, const float* factors, float* input_changes, bool first) {
  float* o[N];
#pragma GCC unroll 16
  for (int n = 0; n < N; ++n) o[n] = s.outputs[from + n];
  const int64_t row = row_of(s.output_count);
  const auto take = [&](int64_t v, auto part) __attribute__((always_inline)) {
    Floats w[N], moved[N];
#pragma GCC unroll 16
    for (int n = 0; n < N; ++n) w[n] = load_at(o[n] + v, part), moved[n] = s.output_changes != nullptr ? Floats{} : w[n];
    for (int64_t i = 0; i < s.input_count; ++i) {
      const float* f = factors + i * row + from;
      const Floats x = load_at(s.inputs[i] + v, part);
      Floats y = !kHeld ? x : first ? Floats{} : load_at(input_changes + i * s.width + v, part);
#pragma GCC unroll 16
      for (int n = 0; n < N; ++n) {
        const Floats g = all(f[n]);
        y += g * w[n], moved[n] += g * x;
      }
      store_at(kHeld ? input_changes + i * s.width + v : s.inputs[i] + v, y, part);
    }
#pragma GCC unroll 16
    for (int n = 0; n < N; ++n)
      store_at(s.output_changes != nullptr ? s.output_changes + (from + n) * s.width + v : o[n] + v, moved[n], part);
  };
  along(s.width, take);
}

template <int N = 1, class Call>
inline void with_count(int64_t count, Call&& call) {
  if constexpr (N == kBlock) {
    call(std::integral_constant<int, N>());
  } else {
    if (count == N) call(std::integral_constant<int, N>());
    else with_count<N + 1>(count, call);
  }
}

// The factors of the changes stand where the products stood.
float factors_of(const PairStep& s, bool wants_loss, float* products) {
  const int64_t row = row_of(s.output_count), count = s.input_count * row;
  Floats loss = {};
  if (kLanes <= kRow || s.output_count > kRow) {
    for (int64_t i = 0; i < s.input_count; ++i)
      for (int64_t n = 0; n < s.output_count; n += kLanes) {
        float* p = products + i * row + n;
        float label[kLanes] = {};
        const int64_t here = s.output_count - n < kLanes ? s.output_count - n : kLanes;
        for (int64_t k = 0; k < here; ++k) label[k] = s.labels[n + k];
        const Floats z = load(p), l = load(label);
        if (wants_loss) loss += first_or(softplus_of(z) - z * l, here, 0);
        const Floats g = (l - sigmoid_of(z)) * s.rate;
        std::memcpy(p, &g, sizeof(float) * static_cast<size_t>(here));
      }
    return wants_loss ? sum_lanes(loss) : 0;
  }
  // Two rows to a vector.
  float label[kLanes] = {}, weight[kLanes] = {};
  for (int64_t k = 0; k < kLanes; ++k)
    if (k % kRow < s.output_count) label[k] = s.labels[k % kRow], weight[k] = 1;
  const Floats l = load(label), w = load(weight);
  for (int64_t at = 0; at < count; at += kLanes) {
    const Floats z = load(products + at);
    if (wants_loss) {
      const Floats each = (softplus_of(z) - z * l) * w;
      loss += at + kLanes <= count ? each : first_or(each, count - at, 0);
    }
    store(products + at, (l - sigmoid_of(z)) * s.rate);
  }
  return wants_loss ? sum_lanes(loss) : 0;
}

void add(float* const* rows, int64_t count, int64_t width, float factor, const float* change) {
  const auto take = [&](int64_t v, auto part) __attribute__((always_inline)) {
    const Floats moved = load_at(change + v, part) * factor;
    for (int64_t i = 0; i < count; ++i) store_at(rows[i] + v, load_at(rows[i] + v, part) + moved, part);
  };
  along(width, take);
}

float step(const PairStep& s, bool wants_loss, float* scratch) {
  for (int64_t from = 0; from < s.output_count; from += kBlock)
    with_count(s.output_count - from, [&](auto n) { products_of<decltype(n)::value>(s, from, scratch); });
  const float loss = factors_of(s, wants_loss, scratch);
  if (s.input_changes == nullptr && s.output_count <= kBlock) {
    with_count(s.output_count, [&](auto n) { changes_of<decltype(n)::value, false>(s, 0, scratch, nullptr, true); });
    return loss;
  }
  float* const held = s.input_changes != nullptr ? s.input_changes : scratch + s.input_count * row_of(s.output_count) + 64;
  for (int64_t from = 0; from < s.output_count; from += kBlock)
    with_count(s.output_count - from, [&](auto n) { changes_of<decltype(n)::value, true>(s, from, scratch, held, from == 0); });
  if (s.input_changes == nullptr)
    for (int64_t i = 0; i < s.input_count; ++i) add(s.inputs + i, 1, s.width, 1, held + i * s.width);
  return loss;
}

void sum(const float* const* rows, int64_t count, int64_t width, float factor, float* out) {
  const auto take = [&](int64_t v, auto part) __attribute__((always_inline)) {
    Floats total = {};
    for (int64_t i = 0; i < count; ++i) total += load_at(rows[i] + v, part);
    store_at(out + v, total * factor, part);
  };
  along(width, take);
}

void products(const float* rows, int64_t count, int64_t width, const float* query, float* out) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float* r = rows + i * width;
    Floats a[4] = {};
    const auto take = [&](int64_t v, auto part) __attribute__((always_inline)) {
      const Floats q = load_at(query + v, part);
#pragma GCC unroll 16
      for (int n = 0; n < 4; ++n) a[n] += q * load_at(r + n * width + v, part);
    };
    along(width, take);
    store_sums<4>(a, out + i);
  }
  for (; i < count; ++i) {
    Floats a = {};
    along(width, [&](int64_t v, auto part) { a += load_at(query + v, part) * load_at(rows + i * width + v, part); });
    out[i] = sum_lanes(a);
  }
}

float distance(const float* a, const float* b, int64_t width) {
  Floats total = {};
  const auto take = [&](int64_t v, auto part) __attribute__((always_inline)) {
    const Floats d = load_at(a + v, part) - load_at(b + v, part);
    total += d * d;
  };
  along(width, take);
  return sum_lanes(total);
}

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const PairLoops PERIGEE_CONCAT(pair_loops, , PERIGEE_ISA);
const PairLoops PERIGEE_CONCAT(pair_loops, , PERIGEE_ISA){.step = PERIGEE_CPU_NAMESPACE::step,
                                                          .sum = PERIGEE_CPU_NAMESPACE::sum,
                                                          .add = PERIGEE_CPU_NAMESPACE::add,
                                                          .products = PERIGEE_CPU_NAMESPACE::products,
                                                          .distance = PERIGEE_CPU_NAMESPACE::distance};

}  // namespace perigee
