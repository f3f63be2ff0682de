// The machine's peak: float32 fused multiply-adds a second, and bytes a second to and from memory. `bench.py` puts these
// floors beside what it measures. Prints one JSON object: GFLOP/s and GB/s, the best of several tries, by number of threads.
#include <immintrin.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace {

constexpr int kTries = 5;
constexpr long kFmaRounds = 8'000'000;
constexpr size_t kArrayBytes = size_t{256} << 20;  // far more than a core's share of the last cache

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Twelve independent chains hide the latency of four cycles on two ports. Named, so that they stay in registers; the empty asm keeps
// the compiler from seeing through them.
#define PERIGEE_TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define PERIGEE_START(i) auto chain##i = set1(static_cast<float>(i));
#define PERIGEE_STEP(i)             \
  chain##i = fmadd(chain##i, x, y); \
  asm volatile("" : "+v"(chain##i));
#define PERIGEE_FMA_LOOP                          \
  const auto x = set1(0.999f), y = set1(1e-6f);   \
  PERIGEE_TWELVE(PERIGEE_START)                   \
  for (long round = 0; round < rounds; ++round) { \
    PERIGEE_TWELVE(PERIGEE_STEP)                  \
  }

#define set1 _mm512_set1_ps
#define fmadd _mm512_fmadd_ps
__attribute__((target("avx512f"))) void fma_avx512(long rounds) { PERIGEE_FMA_LOOP }
#undef set1
#undef fmadd

#define set1 _mm256_set1_ps
#define fmadd _mm256_fmadd_ps
__attribute__((target("avx2,fma"))) void fma_avx2(long rounds) { PERIGEE_FMA_LOOP }
#undef set1
#undef fmadd

// Without fma: a multiplication and an addition, as x86-64-v2 has them.
#define set1 _mm_set1_ps
#define fmadd(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
void fma_baseline(long rounds) { PERIGEE_FMA_LOOP }
#undef set1
#undef fmadd

struct Fma {
  void (*run)(long);
  int lanes;
  const char* isa;
};

Fma best_fma() {
  if (__builtin_cpu_supports("avx512f")) return {fma_avx512, 16, "avx512"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {fma_avx2, 8, "avx2"};
  return {fma_baseline, 4, "baseline"};
}

// The calling thread's own time on a core.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Wall time of `body(thread)` on all threads at once; the best of several tries, since other programs only ever slow it down.
template <class Body>
double best_seconds(int threads, Body body) {
  double best = 1e300;
  for (int k = 0; k < kTries; ++k) {
    const double start = seconds();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
    body(0);
    for (std::thread& other : others) other.join();
    best = std::min(best, seconds() - start);
  }
  return best;
}

// Stores that go past the caches, so that a copy moves its bytes twice and no more.
void copy_streaming(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  _mm_sfence();
}

struct Free {
  void operator()(char* p) const { std::free(p); }
};

}  // namespace

int main(int argc, char** argv) {
  const int max_threads = argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
  const Fma fma = best_fma();
  const std::unique_ptr<char, Free> from(static_cast<char*>(std::aligned_alloc(4096, kArrayBytes)));
  const std::unique_ptr<char, Free> to(static_cast<char*>(std::aligned_alloc(4096, kArrayBytes)));
  if (!from || !to) return 7;
  std::memset(from.get(), 1, kArrayBytes);
  std::memset(to.get(), 1, kArrayBytes);

  std::printf("{\"isa\": \"%s\"", fma.isa);
  for (int threads = 1; threads <= max_threads; ++threads) {
    // By each thread's own time, so that what else runs on the machine does not lower it.
    std::vector<double> compute(static_cast<size_t>(threads), 1e300);
    best_seconds(threads, [&](int t) {
      const double start = cpu_seconds();
      fma.run(kFmaRounds);
      double& best = compute[static_cast<size_t>(t)];
      best = std::min(best, cpu_seconds() - start);
    });
    double gflops = 0;
    for (const double time : compute) gflops += 2.0 * 12 * fma.lanes * kFmaRounds / time * 1e-9;
    const size_t share = kArrayBytes / static_cast<size_t>(threads) / 64 * 64;
    const double copy = best_seconds(threads, [&](int t) {
      copy_streaming(to.get() + share * static_cast<size_t>(t), from.get() + share * static_cast<size_t>(t), share);
    });
    std::printf(", \"gflops_%d\": %.1f, \"gbytes_%d\": %.1f", threads, gflops, threads,
                2.0 * static_cast<double>(share) * threads / copy * 1e-9);
  }
  std::puts("}");
}
