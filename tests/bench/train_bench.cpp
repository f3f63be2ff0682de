// Training speed of one job, as bench.py asks for it:
//   train_bench JOB.json --batch 64 --threads 1 --repeats 5 --seconds 0.5
//   train_bench JOB.json --batch 64 --threads 1 --steps 300       only makes so many steps
//   train_bench JOB.json --device cuda:0 --seconds 2              by Trainer::run, which queues a step before it reads the one before
//   train_bench JOB.json --device cuda:0 --measure 0              on the first kernels that take a call, none measured
//   train_bench JOB.json --device cuda:0 --turns 1                says when it is ready, then reads seconds from stdin, line by line, and answers each
// Steps the trainer with no hooks and prints one JSON object: {"images_per_s": [one number a repeat], "peak_mb": …, …}. On a GPU "per_step"
// says what a step of the timed part asked of CUDA's runtime on average (kernels/cuda/runtime/counters.h): launches outside the graph and host_waits
// must be 0; event_waits is 1, for the figures of the step before while the next one is queued, and blocked_event_waits how often the host,
// being faster than the device, found that step not done yet.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "src/core/error.h"
#include "src/device/cuda_module.h"
#include "src/train/device/device_choice.h"
#include "src/train/trainer.h"

namespace {

constexpr int kWarmUpSteps = 20;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// CPU time of all threads of the process.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Arguments {
  std::string job, device = "cpu";
  int64_t batch = 0;
  int threads = 1, repeats = 5;
  int64_t steps = 0;  // so many steps and no timing: for counting allocations
  double seconds = 0.5;
  bool measure = true, turns = false;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (!name.starts_with("--")) {
      arguments.job = name;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : "";
    if (name == "--batch") arguments.batch = std::atoll(value);
    else if (name == "--device") arguments.device = value;
    else if (name == "--threads") arguments.threads = std::atoi(value);
    else if (name == "--repeats") arguments.repeats = std::atoi(value);
    else if (name == "--steps") arguments.steps = std::atoll(value);
    else if (name == "--seconds") arguments.seconds = std::atof(value);
    else if (name == "--measure") arguments.measure = std::atoi(value) != 0;
    else if (name == "--turns") arguments.turns = std::atoi(value) != 0;
    else throw perigee::Error(perigee::ErrorKind::usage, {.where = "train_bench", .what = "unknown option " + name});
  }
  if (arguments.job.empty()) throw perigee::Error(perigee::ErrorKind::usage, {.where = "train_bench", .what = "a job file is needed"});
  return arguments;
}

perigee::CudaCounts counts() {
  std::string why;
  const perigee::CudaModule* const module = perigee::cuda_module(&why);
  return module ? module->counts() : perigee::CudaCounts();
}

perigee::Json per_step(const perigee::CudaCounts& before, const perigee::CudaCounts& after, int64_t steps) {
  using perigee::CudaCounts;
  static constexpr std::pair<const char*, int64_t CudaCounts::*> kCounts[] = {{"launches", &CudaCounts::launches},
                                                                              {"graph_launches", &CudaCounts::graph_launches},
                                                                              {"copies", &CudaCounts::copies},
                                                                              {"allocations", &CudaCounts::allocations},
                                                                              {"host_waits", &CudaCounts::host_waits},
                                                                              {"event_waits", &CudaCounts::event_waits},
                                                                              {"blocked_event_waits", &CudaCounts::blocked_event_waits}};
  perigee::Json result = perigee::Json::object();
  for (const auto& [name, which] : kCounts)
    result.set(name, static_cast<double>(after.*which - before.*which) / static_cast<double>(steps));
  result.set("graph_nodes", after.captured_nodes);
  result.set("graph_overlaps", after.captured_overlaps);
  return result;
}

// Counts what run() takes until the time is over.
class Meter : public perigee::Hook {
 public:
  void on_step(perigee::Trainer&, const perigee::StepReport& report) override {
    examples += report.examples;
    ++steps;
    loss = report.loss;
    stop = seconds() >= end;
  }
  double end = 0, loss = 0;
  int64_t examples = 0, steps = 0;
  std::atomic<bool> stop{false};
};

// Examples in about so many seconds, and the loss of the last step.
int64_t train_for(perigee::Trainer& trainer, Meter& meter, bool ahead, double duration, double* loss) {
  const double end = seconds() + duration;
  int64_t examples = 0;
  if (ahead) {
    meter.end = end, meter.examples = 0, meter.stop = false;
    trainer.run(meter.stop);
    *loss = meter.loss;
    return meter.examples;
  }
  while (seconds() < end) {
    const perigee::StepReport report = trainer.step();
    examples += report.examples;
    *loss = report.loss;
  }
  return examples;
}

void say(const perigee::Json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

// In turns with a peer: {"images_per_s": ..., "per_step": ...} for each number of seconds, after a third as long to bring the clock up.
void take_turns(perigee::Trainer& trainer, Meter& meter, bool ahead) {
  perigee::Json ready = perigee::Json::object();
  ready.set("ready", true);
  say(ready);
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    const double wanted = std::atof(line);
    double loss = 0;
    train_for(trainer, meter, ahead, wanted / 3, &loss);
    const perigee::CudaCounts before = ahead ? counts() : perigee::CudaCounts();
    const int64_t steps = meter.steps;
    const double start = seconds();
    const auto examples = static_cast<double>(train_for(trainer, meter, ahead, wanted, &loss));
    perigee::Json result = perigee::Json::object();
    result.set("images_per_s", examples / (seconds() - start));
    if (meter.steps > steps) result.set("per_step", per_step(before, counts(), meter.steps - steps));
    result.set("loss", loss);
    say(result);
  }
}

void bench(const Arguments& arguments) {
  perigee::Job job = perigee::Job::load(arguments.job);
  if (arguments.batch > 0) job.set("data.batch", std::to_string(arguments.batch));
  perigee::TrainerOptions options{.threads = arguments.threads, .measure = arguments.measure};
  perigee::choose_device(arguments.device, "train_bench", 0, 1, &options);
  perigee::Trainer trainer(job, options);
  if (arguments.steps > 0) {
    for (int64_t i = 0; i < arguments.steps; ++i) trainer.step();
    return;
  }
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.step();
  Meter meter;
  const bool ahead = options.backend == perigee::Backend::cuda;
  if (ahead) trainer.add_hook(&meter);
  if (arguments.turns) return take_turns(trainer, meter, ahead);

  perigee::Json rates = perigee::Json::array(), cpu_rates = perigee::Json::array();
  double loss = 0;
  const perigee::CudaCounts before = ahead ? counts() : perigee::CudaCounts();
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    const double start = seconds(), cpu_start = cpu_seconds();
    const auto examples = static_cast<double>(train_for(trainer, meter, ahead, arguments.seconds, &loss));
    rates.push(examples / (seconds() - start));
    cpu_rates.push(examples / (cpu_seconds() - cpu_start));
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  perigee::Json result = perigee::Json::object();
  result.set("images_per_s", rates);
  result.set("images_per_cpu_s", cpu_rates);
  if (ahead && meter.steps > 0) result.set("per_step", per_step(before, counts(), meter.steps));
  result.set("batch", trainer.batch());
  result.set("threads", trainer.threads());
  result.set("sub_batch", trainer.sub_batch());
  result.set("loss", loss);
  result.set("peak_mb", static_cast<double>(usage.ru_maxrss) / 1024);
  result.set("held_mb", static_cast<double>(trainer.memory_bytes()) / (1 << 20));
  say(result);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench(parse(argc, argv));
    return 0;
  } catch (const perigee::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
