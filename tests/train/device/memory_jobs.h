// Jobs whose memory on a GPU is foretold: networks, optimisers, precisions, data that stay there and data that are streamed.
#pragma once

#include <string>

#include "tests/train/networks.h"

namespace perigee {

inline Job mlp_job(const std::string& more) {
  return job_of(R"([{"type": "dense", "out": 100, "activation": "relu"}, {"type": "dense", "out": 100, "activation": "relu"},
                    {"type": "dense", "out": 10}])",
                more);
}

inline Job resnet_job(const std::string& more) {
  std::string layers =
      R"({"type": "conv2d", "out": 4, "kernel": 3, "stride": 2, "padding": 1, "bias": false}, {"type": "batchnorm", "activation": "relu"})";
  for (int i = 0; i < 3; ++i)
    layers +=
        R"(, {"type": "residual", "activation": "relu", "layers": [{"type": "conv2d", "out": 4, "kernel": 3, "padding": "same", "bias": false},
      {"type": "batchnorm", "activation": "relu"}, {"type": "conv2d", "out": 4, "kernel": 3, "padding": "same", "bias": false},
      {"type": "batchnorm"}]})";
  return job_of("[" + layers + R"(, {"type": "dense", "out": 10}])", more);
}

// As models/char_lm.lua, on a text of its own.
inline Job text_job(const std::string& more) {
  const Job job = job_of(
      R"([{"type": "embedding", "size": 66, "out": 12}, {"type": "flatten"}, {"type": "dense", "out": 192, "activation": "relu"},
                       {"type": "dense", "out": 66}])",
      more);
  return on_text(job, "device_memory.txt", "what a job takes of memory", 400, 12, 66);
}

struct MemoryJob {
  const char* name;
  Job (*make)(const std::string&);
  const char* more;
  bool streamed = false;
};

inline const MemoryJob kMemoryJobs[] = {
    {"lenet", &lenet_job, ""},
    {"lenet_streamed", &lenet_job, "", true},
    {"lenet_momentum", &lenet_job, R"("nesterov")"},
    {"lenet_adam", &lenet_job, R"("adam")"},
    {"lenet_clipped", &lenet_job, R"(, "clip": {"type": "norm", "threshold": 0.5}, "constraint": [{"type": "max_norm", "max": 0.4}])"},
    {"mlp", &mlp_job, ""},
    {"noisy", &noisy_job, ""},
    {"resnet", &resnet_job, ""},
    {"resnet_recomputed", &resnet_job, R"(, "recompute": "all")"},
    {"resnet_bf16", &resnet_job, R"(, "precision": "bf16")"},
    {"resnet_fp16", &resnet_job, R"(, "precision": "fp16")"},
    {"resnet_streamed", &resnet_job, "", true},
    {"text", &text_job, "", true},
};

inline Job job_of_case(const MemoryJob& of, bool evaluated) {
  const bool optimizer = std::string(of.more).find(',') != 0;  // what it is trained with instead
  Job job = of.make(optimizer ? "" : of.more);
  if (optimizer && *of.more) job.set("optimizer", of.more);
  const std::string type = of.make == &text_job ? job.json().find("data")->find("train")->dump() : R"({"type": "digits", "size": 300})";
  if (of.make != &text_job) job.set("data.train.size", "40");
  if (evaluated) job.set("data.test", type);
  if (of.streamed && of.make != &text_job) job.set("data.train.endless", "true");
  return job;
}

}  // namespace perigee
