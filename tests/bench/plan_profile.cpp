// Where the time of a training step goes: runs a job's training plan on one thread and prints microseconds of CPU time per example for each
// kernel call, with its share of the operations' floor.   plan_profile JOB.json [SUB_BATCH] [WARM_STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "src/core/stopwatch.h"
#include "src/train/trainer.h"

using namespace perigee;

namespace {

double microseconds(double begin) { return (thread_seconds() - begin) * 1e6; }

int profile(const char* path, int64_t sub_batch, int steps) {
  Trainer trainer(Job::load(path), {.threads = 1, .sub_batch = sub_batch});
  for (int i = 0; i < steps; ++i) trainer.step();  // real gradients: a sparse kernel's time depends on them
  const double begin = thread_seconds();
  for (int i = 0; i < steps; ++i) trainer.step();
  const double whole = microseconds(begin) / static_cast<double>(steps * trainer.batch());

  Loader loader(std::shared_ptr<const DataSource>(&trainer.train_source(), [](const DataSource*) {}), {.batch = sub_batch, .threads = 0});
  PlanSet plans(trainer.model(), PlanSet::Kind::training, Backend::cpu, &trainer.tuning());
  Storage gradient(trainer.model().params().block_bytes());
  PlanMemory memory(plans, trainer.model().params(), gradient.data());
  PlanRun& run = memory.at(sub_batch);
  const auto& plan = run.plan();
  std::vector<double> best(plan.steps().size(), 1e30);
  constexpr int kRepeats = 200;
  std::vector<std::vector<double>> samples(plan.steps().size());
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Batch& batch = loader.next();
    for (size_t i = 0; i < trainer.train_source().fields().size(); ++i) {
      const int index = plan.input_index(trainer.train_source().fields()[i].name);
      if (index >= 0) run.set_input(index, batch.fields[i].view().data);
    }
    run.pack();
    const StepInfo info{.example_ids = batch.ids.data(), .training = true};
    for (size_t i = 0; i < plan.steps().size(); ++i) {
      KernelCall call = run.call(i);
      call.step = &info;
      const double start = thread_seconds();
      if (plan.steps()[i].pack_each_run && plan.steps()[i].kernel->pack) plan.steps()[i].kernel->pack(call);
      plan.steps()[i].kernel->run(call);
      samples[i].push_back(microseconds(start) / static_cast<double>(sub_batch));
    }
  }
  double sum = 0;
  std::printf("%8s %8s  %s\n", "us/ex", "GFLOP/s", "call");
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    std::nth_element(samples[i].begin(), samples[i].begin() + kRepeats / 2, samples[i].end());
    const double median = samples[i][kRepeats / 2];
    sum += median;
    const PlanStep& step = plan.steps()[i];
    std::printf("%8.3f %8.1f  %s [%s %s] %s\n", median, step.flops / static_cast<double>(sub_batch) / median / 1e3, step.op->name,
                step.kernel->backend == Backend::ref ? "ref" : "cpu", step.kernel->name, step.scope.c_str());
  }
  const double pack = thread_seconds();
  for (int i = 0; i < kRepeats; ++i) run.pack();
  std::printf(
      "%8.3f           sum of calls\n%8.3f           packing, per example of a batch of %lld\n%8.3f           whole step (loader, calls, "
      "update)\n",
      sum, microseconds(pack) / kRepeats / static_cast<double>(trainer.batch()), static_cast<long long>(trainer.batch()), whole);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: plan_profile JOB.json [SUB_BATCH] [WARM_STEPS]\n");
    return 2;
  }
  try {
    return profile(argv[1], argc > 2 ? std::atoll(argv[2]) : 8, argc > 3 ? std::atoi(argv[3]) : 200);
  } catch (const Error& error) {
    std::fprintf(stderr, "plan_profile: %s\n", error.what());
    return static_cast<int>(error.kind());
  }
}
