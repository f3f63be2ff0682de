// Failures of a GPU's work: kernels that come to no end, captures that break off, codes that say less than they seem to.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "src/device/gpu.h"
#include "src/train/trainer.h"
#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

// In a process of its own, which is of no use any more afterwards: it hears of it, lets go of everything, and ends.
void train_on_one_that_hangs() {
  const Environment patience("PERIGEE_CUDA_TIMEOUT", "1");
  std::string text;
  {
    Trainer trainer(lenet_job(), {.backend = Backend::cuda});
    trainer.step();
    static const Fault hang("hang", 5);  // until the process ends
    text = error_of([&] {
      for (int i = 0; i < 4; ++i) trainer.step();
    });
  }
  std::fprintf(stderr, "said: %s\n", text.c_str());
  std::_Exit(0);  // the shim has no order in which it goes
}

TEST(DeviceWaits, AGpuThatHangsHoldsNobody) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(train_on_one_that_hangs(), testing::ExitedWithCode(0),
              "warning: cuda:0 came to no end in 1 s: its memory is not given back(.|\n)*said: .*could not finish a step of 16 "
              "examples.*timed out.*PERIGEE_CUDA_TIMEOUT");
}

TEST(DeviceWaits, HowLongIsSaidInSeconds) {
  for (const char* wrong : {"", "x", "10m", "0", "-5", "nan", "inf"}) {
    const Environment patience("PERIGEE_CUDA_TIMEOUT", wrong);
    expect_parts(error_of([] { Gpu gpu(0, "test"); }), {"PERIGEE_CUDA_TIMEOUT", wrong, "seconds, at least 1"});
  }
  const Environment patience("PERIGEE_CUDA_TIMEOUT", "2.5");
  Gpu gpu(0, "test");
}

TEST(DeviceWaits, ACaptureThatBreaksOffIsEnded) {
  Gpu gpu(0, "test");
  const GpuMemory memory = gpu.allocate(256, "a test");
  std::string why;
  const auto break_off = [] { throw Error(ErrorKind::model, {.where = "test", .what = "a kernel breaks off"}); };
  expect_parts(error_of([&] { gpu.try_capture(break_off, &why); }), {"a kernel breaks off"});
  expect_parts(error_of([&] { gpu.capture(break_off); }), {"a kernel breaks off"});
  gpu.clear(memory.data(), memory.bytes());
  gpu.wait();  // which a stream that is captured does not allow
  const GpuHandle graph = gpu.try_capture([&] { gpu.clear(memory.data(), memory.bytes()); }, &why);
  ASSERT_TRUE(graph) << why;
  gpu.launch(graph);
  gpu.wait();
}

TEST(DeviceWaits, OnlyWhatEndsTheDeviceSaysSo) {
  const Gpu gpu(0, "test");
  const auto hint = [&](int code) { return error_of([&] { gpu.check(code, "do it"); }); };
  for (const int code : {700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721}) expect_parts(hint(code), {"the device is lost"});
  for (const int code : {701, 703, 704, 705, 708, 711, 712, 713, 720, 46, 222, 802, 804, 909})
    EXPECT_EQ(hint(code).find("the device is lost"), std::string::npos) << code;
  expect_parts(hint(701), {"registers or shared memory"});
  expect_parts(hint(705), {"do not reach each other"});
  expect_parts(hint(713), {"pinned"});
  expect_parts(hint(46), {"another process has the GPU for itself"});
  expect_parts(hint(802), {"nvidia-fabricmanager"});
  expect_parts(hint(804), {"update the driver itself"});
}

TEST(DeviceWaits, AQueueThatCannotBeOpenedIsOfTheDeviceThatWasAskedFor) {
  const Environment two("PERIGEE_SHIM_DEVICES", "2");
  const Fault fault("malloc", 1);
  expect_parts(error_of([] { Gpu(1, "test"); }), {"test: cuda:1", "the GPU could not open a stream", "out of memory"});
}

}  // namespace
}  // namespace perigee
