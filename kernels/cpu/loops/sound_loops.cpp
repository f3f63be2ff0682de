// Vectors of eight numbers, one of each frame; the compiler makes two of four of them where there is no AVX. Contraction is off in this file.
#include "kernels/sound_loops.h"

#include "kernels/half.h"
#include "kernels/registry.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // of vectors as arguments: all is inlined

namespace perigee {
namespace {

// A typedef, as clang takes no alignment from `using`.
typedef float Row __attribute__((vector_size(32), aligned(4), may_alias));
static_assert(alignof(Row) == alignof(float));

// By pointers: a reference to a Row is one to an aligned vector for clang.
Row row(const float* rows, int64_t i) { return *reinterpret_cast<const Row*>(rows + i * kSoundLanes); }
void set_row(float* rows, int64_t i, Row value) { *reinterpret_cast<Row*>(rows + i * kSoundLanes) = value; }

// Neighbouring places, pairs and halves of two rows change places.
inline void mix_places(Row* a, Row* b) {
  const Row x = *a, y = *b;
  *a = __builtin_shufflevector(x, y, 0, 8, 2, 10, 4, 12, 6, 14), *b = __builtin_shufflevector(x, y, 1, 9, 3, 11, 5, 13, 7, 15);
}
inline void mix_pairs(Row* a, Row* b) {
  const Row x = *a, y = *b;
  *a = __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13), *b = __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
}
inline void mix_halves(Row* a, Row* b) {
  const Row x = *a, y = *b;
  *a = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11), *b = __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
}

// Rows and columns of 8 x 8 numbers change places. Written out, since in loops the rows would go through memory.
inline void transpose(Row* r) {
  mix_places(r, r + 1), mix_places(r + 2, r + 3), mix_places(r + 4, r + 5), mix_places(r + 6, r + 7);
  mix_pairs(r, r + 2), mix_pairs(r + 1, r + 3), mix_pairs(r + 4, r + 6), mix_pairs(r + 5, r + 7);
  mix_halves(r, r + 4), mix_halves(r + 1, r + 5), mix_halves(r + 2, r + 6), mix_halves(r + 3, r + 7);
}

void load(const float* const* frames, const float* window, const int32_t* places, int64_t n, float* z) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    Row r[8];
    for (int f = 0; f < 8; ++f) r[f] = *reinterpret_cast<const Row*>(frames[f] + i);
    transpose(r);
    for (int k = 0; k < 8; ++k) set_row(z, places[i + k], r[k] * window[i + k]);
  }
  for (; i < n; ++i)
    for (int f = 0; f < 8; ++f) z[places[i] * kSoundLanes + f] = frames[f][i] * window[i];
}

struct Complex {
  Row r, i;
};
inline Complex operator+(const Complex& a, const Complex& b) { return {a.r + b.r, a.i + b.i}; }
inline Complex operator-(const Complex& a, const Complex& b) { return {a.r - b.r, a.i - b.i}; }
inline Complex times(const Complex& a, float c, float s) { return {a.r * c - a.i * s, a.r * s + a.i * c}; }
inline Complex get(const float* z, int64_t at) { return {row(z, 2 * at), row(z, 2 * at + 1)}; }
inline void put(float* z, int64_t at, const Complex& a) { set_row(z, 2 * at, a.r), set_row(z, 2 * at + 1, a.i); }

// Four transforms of `reach` numbers become one of 4 * reach; at reach = 1 the factors are 1.
inline void join(float* z, int64_t at, int64_t reach, const Complex& b, const Complex& c, const Complex& d) {
  const Complex a = get(z, at), low = a + b, high = a - b, sum = c + d, difference = c - d;
  put(z, at, low + sum), put(z, at + 2 * reach, low - sum);
  put(z, at + reach, {high.r + difference.i, high.i - difference.r});
  put(z, at + 3 * reach, {high.r - difference.i, high.i + difference.r});
}

void transform(int64_t half, const float* cosine, const float* sine, float* z) {
  int64_t reach = 1;
  if (__builtin_ctzll(static_cast<uint64_t>(half)) % 2 == 1) {
    for (int64_t at = 0; at < half; at += 2) {
      const Complex a = get(z, at), b = get(z, at + 1);
      put(z, at, a + b), put(z, at + 1, a - b);
    }
    reach = 2;
  } else {
    for (int64_t at = 0; at < half; at += 4) join(z, at, 1, get(z, at + 1), get(z, at + 2), get(z, at + 3));
    reach = 4;
  }
  for (; reach < half; reach *= 4)
    for (int64_t block = 0; block < half; block += 4 * reach)
      for (int64_t k = 0; k < reach; ++k) {
        const int64_t at = block + k, step = half / (2 * reach) * k;
        join(z, at, reach, times(get(z, at + reach), cosine[2 * step], sine[2 * step]),
             times(get(z, at + 2 * reach), cosine[step], sine[step]), times(get(z, at + 3 * reach), cosine[3 * step], sine[3 * step]));
      }
}

// Calls f(k, bin k, bin half - k) for k <= half / 2: those of the real transform, from those of the pairs.
template <class F>
inline void for_bins(int64_t half, const float* cosine, const float* sine, float* z, F f) {
  transform(half, cosine, sine, z);
  for (int64_t k = 0; k <= half / 2; ++k) {
    const Complex p = get(z, k), q = get(z, (half - k) % half);
    const Complex even = {.5f * (p.r + q.r), .5f * (p.i - q.i)}, odd = times({.5f * (p.i + q.i), .5f * (q.r - p.r)}, cosine[k], sine[k]);
    f(k, even + odd, even - odd);
  }
}

// The second of the two bins comes out as the other's mirror image.
void power(int64_t half, const float* cosine, const float* sine, float* z, float* out) {
  for_bins(half, cosine, sine, z, [&](int64_t k, const Complex& low, const Complex& high) {
    set_row(out, k, low.r * low.r + low.i * low.i), set_row(out, half - k, high.r * high.r + high.i * high.i);
  });
}

void bins(int64_t half, const float* cosine, const float* sine, float* z, float* out) {
  for_bins(half, cosine, sine, z, [&](int64_t k, const Complex& low, const Complex& high) {
    put(out, k, low);
    if (k < half - k) put(out, half - k, {high.r, -high.i});
  });
}

// Both halves of the bins of a real signal, each bin half as large, make pairs of even and odd numbers; conjugates take the transform back.
void unbin(int64_t half, const float* cosine, const float* sine, const int32_t* places, const float* bins, float* out) {
  for (int64_t k = 0; k < half; ++k) {
    Complex a = get(bins, k), b = get(bins, half - k);
    if (k == 0) a.i = b.i = Row{};
    else a = {.5f * a.r, .5f * a.i}, b = {.5f * b.r, .5f * b.i};
    a.i = -a.i;
    const Complex sum = a + b, turned = times(a - b, cosine[k], sine[k]);
    put(out, places[2 * k] / 2, {sum.r + turned.i, sum.i - turned.r});
  }
  transform(half, cosine, sine, out);
  for (int64_t i = 0; i < half; ++i) set_row(out, 2 * i + 1, -row(out, 2 * i + 1));
}

void weigh(const float* weights, int64_t n, const float* rows, float* sum) {
  Row a{}, b{};
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) a += weights[i] * row(rows, i), b += weights[i + 1] * row(rows, i + 1);
  if (i < n) a += weights[i] * row(rows, i);
  set_row(sum, 0, a + b);
}

// 2 artanh((m - 1) / (m + 1)) for the mantissa m in [sqrt(1/2), sqrt(2)).
float logarithm(float* values, int64_t n, float factor, float floor) {
  float largest = -3e38f;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    const float x = values[i] > floor ? values[i] : floor;
    const auto bits = static_cast<int32_t>(bits_from_float(x));
    const int32_t exponent = (bits - 0x3F3504F3) >> 23;
    const float mantissa = float_from_bits(static_cast<uint32_t>(bits - exponent * (1 << 23)));
    const float s = (mantissa - 1) / (mantissa + 1), q = s * s;
    const float ln = 2 * s * (1 + q * (1 / 3.f + q * (.2f + q * (1 / 7.f + q / 9)))) + static_cast<float>(exponent) * 0.693147180559945f;
    values[i] = factor * ln;
    largest = values[i] > largest ? values[i] : largest;
  }
  return largest;
}

void combine(const float* table, int64_t outputs, int64_t inputs, const float* in, int64_t stride, int64_t n, float* out) {
  int64_t t = 0;
  for (; t + 16 <= n; t += 16)
    for (int64_t k = 0; k < outputs; ++k) {
      Row a{}, b{};
      const float *weight = table + k * inputs, *at = in + t;
      for (int64_t m = 0; m < inputs; ++m, at += stride) a += weight[m] * row(at, 0), b += weight[m] * row(at, 1);
      set_row(out + k * stride + t, 0, a), set_row(out + k * stride + t, 1, b);
    }
  for (; t < n; ++t)
    for (int64_t k = 0; k < outputs; ++k) {
      float sum = 0;
      for (int64_t m = 0; m < inputs; ++m) sum += table[k * inputs + m] * in[m * stride + t];
      out[k * stride + t] = sum;
    }
}

float dot(const float* a, const float* b, int64_t n) {
  Row sum[4] = {};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (int64_t j = 0; j < 4; ++j) sum[j] += row(a + i, j) * row(b + i, j);
  for (; i + 8 <= n; i += 8) sum[0] += row(a + i, 0) * row(b + i, 0);
  const Row all = sum[0] + sum[1] + (sum[2] + sum[3]);
  float total = all[0] + all[4] + (all[1] + all[5]) + (all[2] + all[6] + (all[3] + all[7]));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// Eight sums at once hide the time that an addition takes, and share the weights; added up across by the same order as dot().
void dots(const float* a, int64_t step, const float* b, int64_t n, float* out) {
  Row sum[8] = {};
  for (int64_t i = 0; i < n; i += 8) {
    const Row weights = row(b + i, 0);
    for (int64_t j = 0; j < 8; ++j) sum[j] += row(a + j * step + i, 0) * weights;
  }
  transpose(sum);
  set_row(out, 0, sum[0] + sum[4] + (sum[1] + sum[5]) + (sum[2] + sum[6] + (sum[3] + sum[7])));
}

}  // namespace

extern const SoundLoops PERIGEE_CONCAT(sound_loops, , PERIGEE_ISA);
const SoundLoops PERIGEE_CONCAT(sound_loops, , PERIGEE_ISA){.load = load,
                                                            .power = power,
                                                            .bins = bins,
                                                            .unbin = unbin,
                                                            .weigh = weigh,
                                                            .logarithm = logarithm,
                                                            .combine = combine,
                                                            .dot = dot,
                                                            .dots = dots};

}  // namespace perigee
