// Shared by tests of several GPUs in one process: trainers of so many GPUs, and of as many threads, which have the same bits.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {

inline TrainerOptions team_of(int gpus) {
  TrainerOptions options{.backend = Backend::cuda, .devices = {}};
  for (int i = 0; i < gpus; ++i) options.devices.push_back(i);
  return options;
}

// A CPU's threads take the slices that the GPUs take; all of a slice at once.
inline TrainerOptions threads_of(int threads) { return {.threads = threads, .backend = Backend::ref, .sub_batch = 1000}; }

inline Job deterministic(Job job) {
  job.set("deterministic", "true");
  return job;
}

// The job for one trainer of so many times the batch: "batch" is a GPU's.
inline Job of_all(Job job, int gpus) {
  job.set("data.batch", std::to_string(gpus * 16));
  return job;
}

// Random draws without batch statistics: those are a GPU's, and of all threads of a CPU.
inline Job drawn_job(const std::string& more = "") {
  return job_of(R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2, "activation": "relu"}, {"type": "dropout", "rate": 0.3},
                    {"type": "dense", "out": 24, "activation": "tanh"}, {"type": "gaussian_noise", "stddev": 0.1},
                    {"type": "dense", "out": 10}])",
                more);
}

class Watch : public Hook {
 public:
  void on_step(Trainer&, const StepReport& report) override {
    reports.push_back(report);
    counted.push_back(counters());
  }
  std::vector<StepReport> reports;
  std::vector<shim::Counters> counted;
};

inline void run(Trainer& trainer, Watch* watch) {
  const std::atomic<bool> stop{false};
  trainer.add_hook(watch);
  ASSERT_TRUE(trainer.run(stop));
}

}  // namespace perigee
