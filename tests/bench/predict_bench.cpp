// Latency of single predictions, for bench.py: predict_bench JOB.json [SECONDS]. One thread, one example a request; the parameters
// are the initial ones. Prints {"p50_us": ..., "p99_us": ..., "min_us": ..., "requests": ...}.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "perigee.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("usage: predict_bench JOB.json [SECONDS]"), 2;
  const pg::trainer trainer(pg::job::load(argv[1]), {.threads = 1});
  const pg::model model = trainer.model();
  const pg::predictor predictor(model);
  const pg::tensor_info input = model.inputs().at(0);
  constexpr size_t kImages = 64;
  const size_t row = input.bytes / sizeof(float);
  std::vector<float> x(kImages * row), out(model.output().bytes / sizeof(float));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 1000) / 500 - 1;

  using Clock = std::chrono::steady_clock;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::vector<double> times;
  times.reserve(1 << 22);
  for (size_t i = 0; times.size() < times.capacity(); ++i) {
    const auto start = Clock::now();
    predictor.predict(std::span<const float>(x).subspan(i % kImages * row, row), std::span(out));
    const auto now = Clock::now();
    if (i >= 1000) times.push_back(std::chrono::duration<double, std::micro>(now - start).count());
    if (now >= end && !times.empty()) break;
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) { return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))]; };
  std::printf("{\"p50_us\": %.2f, \"p99_us\": %.2f, \"min_us\": %.2f, \"requests\": %zu}\n", at(0.5), at(0.99), times[0], times.size());
  return 0;
}
