// Small jobs that train in milliseconds, for the tests of training.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "src/train/trainer.h"

namespace perigee {

inline Job job_of(const std::string& network, const std::string& more = "") {
  return Job(Json::parse(R"({"loss": "cross_entropy", "optimizer": {"type": "adamw", "lr": {"type": "cosine", "from": 0.01}}, "seed": 11,
      "epochs": 3, "network": {"type": "sequential", "layers": )" +
                             network + R"(}, "data": {"train": {"type": "digits", "size": 100, "endless": false}, "batch": 16}
      )" + more + "}",
                         "job"),
             "job");
}

inline Job tiny_job(const std::string& more = "") {
  return job_of(R"([{"type": "avgpool", "kernel": 7}, {"type": "dense", "out": 10}])", more);
}

inline Job lenet_job(const std::string& more = "") {
  return job_of(R"([{"type": "conv2d", "out": 6, "kernel": 5, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
                    {"type": "conv2d", "out": 10, "kernel": 5, "stride": 2, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
                    {"type": "dense", "out": 30, "activation": "relu"}, {"type": "dense", "out": 10}])",
                more);
}

inline Job gelu_job(const std::string& more = "") {
  return job_of(R"([{"type": "flatten"}, {"type": "dense", "out": 24, "activation": {"type": "gelu", "approximate": "tanh"}},
                    {"type": "dense", "out": 24, "activation": {"type": "gelu", "approximate": "tanh"}}, {"type": "dense", "out": 10}])",
                more);
}

// Its head is one op on a device (src/graph/passes/fuse_head.h), with the slope of the relu below.
inline Job head_job(const std::string& more = "") {
  return job_of(R"([{"type": "dense", "out": 24, "activation": "relu"}, {"type": "dense", "out": 10}])", more);
}

// Random draws and running statistics: what a resume gets wrong first.
inline Job noisy_job(const std::string& more = "") {
  return job_of(
      R"([{"type": "conv2d", "out": 4, "kernel": 5, "stride": 2}, {"type": "batchnorm"}, {"type": "activation", "activation": "relu"},
                    {"type": "dropout", "rate": 0.3}, {"type": "dense", "out": 24, "activation": "tanh"},
                    {"type": "gaussian_noise", "stddev": 0.1}, {"type": "dense", "out": 10}])",
      more);
}

// Its gradients meet: at the first block of an earlier result and a convolution's, at the second of two convolutions'.
inline Job meeting_job(const std::string& more = "") {
  const std::string conv = R"({"type": "conv2d", "out": 4, "kernel": 3, "padding": 1, "bias": false)";
  const std::string block = R"({"type": "residual", "activation": "relu", "layers": [)" + conv +
                            R"(}, {"type": "batchnorm", "activation": "relu"}, )" + conv + R"(}, "batchnorm"])";
  return job_of("[" + conv + R"(, "stride": 2}, "batchnorm", )" + block + "}," + block + R"(, "shortcut": [)" + conv +
                    R"(}, "batchnorm"]}, {"type": "global_pool", "kind": "average"}, {"type": "dense", "out": 10}])",
                more);
}

// The job on a text of lines that are numbered, in a file of this name.
inline Job on_text(Job job, const std::string& name, const std::string& line, int lines, int context, int vocabulary) {
  const std::string path = testing::TempDir() + name;
  std::ofstream file(path);
  for (int i = 0; i < lines; ++i) file << line << ' ' << i << '\n';
  job.set("data.train", R"({"type": "text", "file": ")" + path + R"(", "context": )" + std::to_string(context) + R"(, "max_vocabulary": )" +
                            std::to_string(vocabulary) + "}");
  return job;
}

// The benchmark's (tests/gpu/bench.py).
inline const std::string kLenet = R"([{"type": "conv2d", "out": 20, "kernel": 5, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
    {"type": "conv2d", "out": 50, "kernel": 5, "stride": 2, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
    {"type": "dense", "out": 200, "activation": "relu"}, {"type": "dense", "out": 10}])";
inline const std::string kMlp = R"([{"type": "flatten"}, {"type": "dense", "out": 500, "activation": "relu"},
    {"type": "dense", "out": 500, "activation": "relu"}, {"type": "dense", "out": 10}])";

// The error that refuses a trainer of `job`.
inline std::string failure_of(const Job& job) {
  try {
    Trainer trainer(job, {.threads = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Parameters, states and optimiser slots, as bits.
struct Bits {
  std::vector<std::byte> parameters, slots, states;
  bool operator==(const Bits&) const = default;
};

inline Bits bits_of(Trainer& trainer) {
  Bits bits;
  Params& params = trainer.model().params();
  bits.parameters.assign(params.block(), params.block() + params.block_bytes());
  for (size_t i = 0; i < trainer.optimizer_slots(); ++i)
    bits.slots.insert(bits.slots.end(), trainer.optimizer_slot(i).begin(), trainer.optimizer_slot(i).end());
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const Tensor state = params.state_tensor(static_cast<int>(i));
    const auto* data = static_cast<const std::byte*>(state.view().data);
    bits.states.insert(bits.states.end(), data, data + state.bytes());
  }
  return bits;
}

}  // namespace perigee
