// Random draws, whole Philox blocks at a time. Compiled without contraction: the same bits on every instruction set, and those of ref.
#include "kernels/ops/random.h"

#include <cmath>
#include <numbers>

#include "kernels/cpu/strided_copy.h"
#include "kernels/philox.h"

namespace perigee {
namespace PERIGEE_CPU_NAMESPACE {
namespace {

constexpr int kBlocks = kLanes;  // drawn side by side, one in each lane

typedef uint64_t Wide __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));

constexpr int kSets = 2;  // vectors that are drawn together: a round has to wait for the one before
constexpr int kDrawn = 4 * kSets * kBlocks;

struct Draws {
  Words word[kSets][4];
};

// The high and low halves of the 64-bit products of x and m.
struct Product {
  Words high, low;
};

// Takes the even lanes.
Wide multiply(Words x, uint32_t m) {
#if defined(__AVX512F__)
  return reinterpret_cast<Wide>(_mm512_mul_epu32(reinterpret_cast<__m512i>(x), _mm512_set1_epi32(static_cast<int>(m))));
#elif defined(__AVX2__)
  return reinterpret_cast<Wide>(_mm256_mul_epu32(reinterpret_cast<__m256i>(x), _mm256_set1_epi32(static_cast<int>(m))));
#else
  return reinterpret_cast<Wide>(_mm_mul_epu32(reinterpret_cast<__m128i>(x), _mm_set1_epi32(static_cast<int>(m))));
#endif
}

Product product(Words x, uint32_t m) {
  const Words odd = reinterpret_cast<Words>(reinterpret_cast<Wide>(x) >> 32);
  const Wide even_product = multiply(x, m), odd_product = multiply(odd, m);
  const Words upper = reinterpret_cast<Words>(Wide{} + 0xffffffff00000000u);  // the odd lanes
  return {(reinterpret_cast<Words>(odd_product) & upper) | reinterpret_cast<Words>(even_product >> 32),
          reinterpret_cast<Words>(odd_product << 32) | (reinterpret_cast<Words>(even_product) & ~upper)};
}

// kSets * kBlocks blocks from `first` on, of the counter (first, b, c, d).
Draws draw(uint32_t first, uint32_t b, uint32_t c, uint32_t d, PhiloxKey key) {
  Draws draws;
  for (int set = 0; set < kSets; ++set) {
    draws.word[set][0] = reinterpret_cast<Words>(lane_numbers()) + (first + static_cast<uint32_t>(set * kBlocks));
    draws.word[set][1] = Words{} + b;
    draws.word[set][2] = Words{} + c;
    draws.word[set][3] = Words{} + d;
  }
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int set = 0; set < kSets; ++set) {
      Words* w = draws.word[set];
      const Product p = product(w[0], 0xD2511F53u), q = product(w[2], 0xCD9E8D57u);
      w[0] = q.high ^ w[1] ^ key.word[0];
      w[1] = q.low;
      w[2] = p.high ^ w[3] ^ key.word[1];
      w[3] = p.low;
    }
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  return draws;
}

struct Uniform {
  // x[4 i + k] is word k of block i, as in uniform_from_bits.
  static void turn(const Words* words, float* x) {
    float lanes[4][kBlocks];
    for (int k = 0; k < 4; ++k) store(lanes[k], __builtin_convertvector(reinterpret_cast<Ints>(words[k] >> 8), Floats) * 0x1p-24f);
    for (int i = 0; i < kBlocks; i += 4) transpose_4x4(lanes[0] + i, kBlocks, x + 4 * i, 4);
  }
};

struct Normal {
  static void turn(const Words* words, float* x) {
    for (int i = 0; i < kBlocks; ++i)
      for (int pair = 0; pair < 4; pair += 2) {
        const double radius = std::sqrt(-2.0 * std::log(1.0 - double{uniform_from_bits(words[pair][i])}));
        const double angle = 2.0 * std::numbers::pi * double{uniform_from_bits(words[pair + 1][i])};
        x[4 * i + pair] = static_cast<float>(radius * std::cos(angle));
        x[4 * i + pair + 1] = static_cast<float>(radius * std::sin(angle));
      }
  }
};

// Elements 0 .. n - 1 of the counter (block, b, c, d).
template <class Rule>
void fill(float* y, int64_t n, uint32_t b, uint32_t c, uint32_t d, PhiloxKey key, const RandomParams& params) {
  const float offset = static_cast<float>(params.offset), scale = static_cast<float>(params.scale);
  float x[kDrawn];
  for (int64_t begin = 0; begin < n; begin += kDrawn) {
    const Draws draws = draw(static_cast<uint32_t>(begin / 4), b, c, d, key);
    const int64_t count = n - begin < kDrawn ? n - begin : kDrawn;
    for (int set = 0; set < kSets && set * 4 * kBlocks < count; ++set) Rule::turn(draws.word[set], x + set * 4 * kBlocks);
    for (int64_t i = 0; i < count; ++i) y[begin + i] = offset + scale * x[i];
  }
}

const char* decline(const KernelCall& call) { return call.out[0].dtype == Dtype::f32 ? nullptr : "f32 only"; }

// One row of dimension 0, or all of it when the draw is per step.
int64_t drawn_at_once(const KernelCall& call) {
  const View& y = call.out[0];
  const int64_t rows = call.as<RandomParams>().per_example ? y.dims[0] : 1;
  return rows > 0 ? y.elements() / rows : 0;
}

// Elements are numbered in canonical order: for another order in memory they are drawn beside, then moved.
size_t scratch_bytes(const KernelCall& call) {
  return call.out[0].contiguous() ? 0 : static_cast<size_t>(drawn_at_once(call)) * sizeof(float);
}

template <class Rule>
void draw_into(const View& y, void* scratch, uint32_t b, uint32_t c, uint32_t d, PhiloxKey key, const RandomParams& params) {
  if (y.contiguous()) return fill<Rule>(y.as<float>(), y.elements(), b, c, d, key, params);
  View canonical = y;
  canonical.data = scratch;
  for (int64_t i = y.rank - 1, stride = 1; i >= 0; --i) {
    canonical.strides[i] = stride;
    stride *= y.dims[i];
  }
  fill<Rule>(canonical.as<float>(), y.elements(), b, c, d, key, params);
  strided_copy(canonical, y, false);
}

template <class Rule>
void run(const KernelCall& call) {
  const auto& params = call.as<RandomParams>();
  const StepInfo step = call.step ? *call.step : StepInfo{};
  const PhiloxKey key = philox_key(step.seed, params.stream);
  View y = call.out[0];
  if (!params.per_example)
    return draw_into<Rule>(y, call.scratch, static_cast<uint32_t>(step.step), static_cast<uint32_t>(step.step >> 32), 0xFFFFFFFFu, key,
                           params);
  const int64_t rows = y.dims[0];
  y.dims[0] = 1;
  for (int64_t row = 0; row < rows; ++row) {
    const uint64_t example = static_cast<uint64_t>(step.example_ids ? step.example_ids[row] : row);
    draw_into<Rule>(y, call.scratch, static_cast<uint32_t>(example), static_cast<uint32_t>(example >> 32),
                    static_cast<uint32_t>(step.epoch), key, params);
    y.data = y.as<float>() + y.strides[0];
  }
}

constexpr Isa kIsa = kLanes == 16 ? Isa::avx512 : kLanes == 8 ? Isa::avx2 : Isa::baseline;

constexpr Kernel kKernels[] = {
    {.op = "random_uniform",
     .name = "blocks",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline,
     .run = run<Uniform>,
     .scratch_bytes = scratch_bytes},
    {.op = "random_normal",
     .name = "blocks",
     .backend = Backend::cpu,
     .isa = kIsa,
     .decline = decline,
     .run = run<Normal>,
     .scratch_bytes = scratch_bytes},
};

}  // namespace
}  // namespace PERIGEE_CPU_NAMESPACE

extern const KernelList PERIGEE_CPU_KERNELS(random);
const KernelList PERIGEE_CPU_KERNELS(random) = kernel_list(PERIGEE_CPU_NAMESPACE::kKernels);

}  // namespace perigee
