// A user's mistakes with a device: no such device, too little memory, allocations and kernels that fail.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

TEST(Device, SaysWhatIsWrongWithTheDevice) {
  TrainerOptions seventh = kDevice;
  seventh.devices = {7};
  {
    const Environment two("PERIGEE_SHIM_DEVICES", "2");
    expect_parts(error_of([&] { Trainer(tiny_job(), seventh); }), {"there is no such device", "cuda:7", "cuda:0 to cuda:1"});
  }
  {
    const Environment none("PERIGEE_SHIM_DEVICES", "0");
    expect_parts(error_of([&] { Trainer(tiny_job(), kDevice); }), {"cuda:0", "no CUDA-capable device", "perigee doctor"});
  }
  {
    const Environment old("PERIGEE_SHIM_DRIVER", "old");
    expect_parts(error_of([&] { Trainer(tiny_job(), kDevice); }), {"driver version is insufficient", "perigee doctor"});
  }
  const Environment image("PERIGEE_SHIM_DRIVER", "image");
  expect_parts(error_of([&] { Trainer(tiny_job(), kDevice); }), {"no kernel image", "sm_80, sm_90", "kernel '"});
}

TEST(Device, SaysWhatNeedsMostMemoryAndWhichBatchFits) {
  Job job = lenet_job();
  job.set("data.batch", "1024");
  job.set("data.train.size", "5000");
  job.set("data.train.endless", "true");
  const Environment small("PERIGEE_SHIM_MEMORY_MB", "6");
  const std::string text = error_of([&] { Trainer(job, kDevice); });
  expect_parts(text, {"a batch of 1024 needs more memory than the GPU has", "op 'conv", "MiB", "--batch "});
  const int64_t fits = std::atoll(text.c_str() + text.find("--batch ") + 8);
  ASSERT_GT(fits, 0);
  job.set("data.batch", std::to_string(fits));
  Trainer smaller(job, kDevice);
  EXPECT_EQ(smaller.step().examples, fits);
}

TEST(Device, EveryAllocationMayFail) {
  int failed = 0;
  for (long nth = 1; nth < 60; ++nth) {
    const Fault fault("malloc", nth);
    const std::string text = error_of([&] { Trainer(noisy_job(), kDevice).step(); });
    if (text == "no error") break;
    ++failed;
    EXPECT_NE(text.find("memory"), std::string::npos) << nth << ": " << text;
  }
  EXPECT_GT(failed, 5);
}

TEST(Device, AFaultOfTheDeviceNamesTheOp) {
  Trainer trainer(lenet_job(), kDevice);
  const Fault fault("launch", 3);
  expect_parts(error_of([&] { trainer.step(); }), {"illegal memory access", "op '", "layer"});
  expect_parts(error_of([&] { trainer.step(); }), {"illegal memory access"});
}

// A worker that replaces one whose GPU was lost.
TEST(Device, TheFirstStepsMayRunOpByOp) {
  const Environment two("PERIGEE_CUDA_BLOCKING", "2");
  {
    Trainer trainer(lenet_job(), kDevice);
    trainer.step();
    const Fault fault("launch", 9);
    expect_parts(error_of([&] { trainer.step(); }), {"illegal memory access", "op '"});
  }
  Trainer trainer(lenet_job(), kDevice), reference(lenet_job(), {.threads = 1, .backend = Backend::ref, .sub_batch = 1000});
  for (int step = 1; step <= 4; ++step) {
    const long before = counters().graph_launches;
    EXPECT_EQ(trainer.step().loss, reference.step().loss) << step;
    EXPECT_EQ(counters().graph_launches > before, step > 2) << step;
  }
  EXPECT_EQ(bits_of(trainer), bits_of(reference));
}

TEST(Device, AFaultInAGraphSaysHowToFindTheOp) {
  Trainer trainer(lenet_job(), kDevice);
  trainer.step();
  const Bits before = bits_of(trainer);
  {
    const Fault fault("launch", 9);
    expect_parts(error_of([&] { trainer.step(); }), {"illegal memory access", "PERIGEE_CUDA_BLOCKING=1"});
    expect_parts(error_of([&] { trainer.model(); }), {"illegal memory access"});
  }
  const Environment blocking("PERIGEE_CUDA_BLOCKING", "1");
  Trainer found(lenet_job(), kDevice);
  found.step();
  const Fault fault("launch", 9);
  expect_parts(error_of([&] { found.step(); }), {"op '"});
}

}  // namespace
}  // namespace perigee
