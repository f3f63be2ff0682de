// Generation with a model that nobody trained, on one thread; prints one JSON object. generate.py runs it and PyTorch in turns.
//   generate_bench gpt|lstm|large tokens         texts of 200 characters, one after another: tokens a second of CPU time, one number a repeat
//   generate_bench gpt|lstm|large sessions 1000  so many sessions that take turns: bytes of each, mean and p99 of a step in microseconds of CPU time
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "src/generate/sampler.h"
#include "src/model/steps/step_model.h"

using namespace perigee;

namespace {

constexpr int64_t kCharacters = 65, kTokens = 200;

// The networks of models/gpt.lua and char_lstm.lua, and a GPT of 100 million parameters.
Model model_of(const std::string& name, int64_t context) {
  const char* const network =
      name == "large" ? R"([{"type": "embedding", "size": 65, "out": 768, "name": "tokens"}, "positions",
        {"type": "transformer", "layers": 14, "heads": 12, "causal": true, "activation": {"type": "gelu", "approximate": "tanh"}},
        {"type": "dense", "out": 65, "over": "steps", "tied": "tokens", "bias": false}])"
      : name == "gpt"
          ? R"([{"type": "embedding", "size": 65, "out": 128, "name": "tokens"}, "positions",
        {"type": "transformer", "layers": 4, "heads": 4, "causal": true, "activation": {"type": "gelu", "approximate": "tanh"}},
        {"type": "dense", "out": 65, "over": "steps", "tied": "tokens", "bias": false}])"
          : R"([{"type": "embedding", "size": 65, "out": 64}, {"type": "lstm", "units": 256}, {"type": "dense", "out": 65, "over": "steps"}])";
  ModelSpec spec{.network = Json::parse(network, "network"), .where = "network"};
  spec.inputs = {{"x", {Dtype::i64, Shape{context}}}};
  Model model(std::move(spec));
  model.params().initialize(1);
  return model;
}

// CPU time of this thread, so that what else runs on the machine is left out.
double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// As a generation does it: scores, a filter, a draw.
void tokens(const std::string& name) {
  const Model model = model_of(name, 512);
  StepModel steps(model);
  CarriedRows state(steps.carried(), 1);
  Sampler sampler({.seed = 1});
  std::vector<double> scores(kCharacters);
  std::vector<int64_t> text;
  std::printf("{\"tokens_per_cpu_s\": [");
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double begin = cpu_seconds();
    int64_t made = 0;
    while (cpu_seconds() - begin < 0.4) {
      state.clear();
      text.assign(1, 0);
      for (int64_t i = 0; i < kTokens; ++i, ++made) {
        const View& view = steps.step(state, &text.back());
        for (size_t c = 0; c < scores.size(); ++c) scores[c] = view.as<float>()[static_cast<int64_t>(c) * view.strides[1]];
        sampler.filter(scores, text);
        text.push_back(sampler.draw(scores, static_cast<uint64_t>(i)));
      }
    }
    std::printf("%s%.0f", repeat ? ", " : "", static_cast<double>(made) / (cpu_seconds() - begin));
  }
  std::printf("]}\n");
}

// Memory of the process that is in use now.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

void sessions(const std::string& name, int64_t count) {
  const Model model = model_of(name, 64);
  const auto steps = std::make_shared<StepModel>(model);
  std::vector<std::unique_ptr<StepSession>> all;
  const double before = resident_bytes();
  for (int64_t i = 0; i < count; ++i) all.push_back(std::make_unique<StepSession>(steps));
  std::vector<float> y(kCharacters);
  std::vector<double> times;
  for (int64_t t = 0; t < 20; ++t)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t x = (i * 31 + t * 7) % kCharacters;
      const double begin = thread_us();
      all[static_cast<size_t>((i * 7919) % count)]->step(&x, 1, y.data());
      times.push_back(thread_us() - begin);
    }
  size_t stated = 0;
  for (size_t i = 0; i < steps->carried().size(); ++i) stated += all[0]->state().now(i).size();
  double mean = 0;
  for (const double time : times) mean += time / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  std::printf("{\"sessions\": %lld, \"state_bytes\": %zu, \"resident_bytes\": %.0f, \"mean_us\": %.1f, \"p99_us\": %.1f}\n",
              static_cast<long long>(count), stated, (resident_bytes() - before) / static_cast<double>(count), mean,
              times[static_cast<size_t>(0.99 * static_cast<double>(times.size() - 1))]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("usage: generate_bench gpt|lstm|large tokens|sessions [COUNT]"), 2;
  if (std::strcmp(argv[2], "tokens") == 0) tokens(argv[1]);
  else sessions(argv[1], argc > 3 ? std::atoll(argv[3]) : 1000);
  return 0;
}
