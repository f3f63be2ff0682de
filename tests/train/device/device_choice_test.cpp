// Values of --device.
#include "src/train/device/device_choice.h"

#include <gtest/gtest.h>

#include "src/core/warning.h"
#include "tests/train/device/device_site.h"

namespace perigee {
namespace {

TEST(DeviceChoice, ReadsWhatAUserWrites) {
  const auto choice = [](const char* device, int worker = 0, int gpus = 1) {
    TrainerOptions options;
    choose_device(device, "--device", worker, gpus, &options);
    return options;
  };
  EXPECT_EQ(choice("cpu").backend, Backend::cpu);
  EXPECT_EQ(choice("ref").backend, Backend::ref);
  EXPECT_TRUE(choice("check:cpu,ref").check);
  EXPECT_EQ(choice("auto").backend, Backend::cuda);
  EXPECT_EQ(choice("cuda:3").devices, std::vector<int>{3});
  for (const char* wrong : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "check:cuda", ""})
    expect_parts(error_of([&] { choice(wrong); }), {"--device", "there is no such device"});
  for (const char* wrong : {"cuda:1-", "cuda:2-1", "cuda:0,", "cuda:,1", "cuda:0-9999999999", "cuda:0--1"})
    expect_parts(error_of([&] { choice(wrong); }), {"there is no such device", "cuda:0-3"});
  using Devices = std::vector<int>;
  const Environment four("PERIGEE_SHIM_DEVICES", "4");
  EXPECT_EQ(choice("cuda:0-2,5", 0, 4).devices, (Devices{0, 1, 2, 5}));
  EXPECT_EQ(choice("cuda:0-2,5", 1, 2).devices, (Devices{2, 5}));
  EXPECT_EQ(choice("cuda:0-2,5", 3).devices, Devices{5});
  EXPECT_EQ(choice("cuda", 1, 2).devices, (Devices{2, 3}));
  EXPECT_EQ(choice("auto", 2, 2).devices, (Devices{0, 1}));  // more workers than there are GPUs for
  expect_parts(error_of([&] { choice("cuda", 0, 5); }), {"devices: a worker is to train on more GPUs than there are", "5", "at most 4"});
  EXPECT_EQ(choice("cuda", 6).devices, std::vector<int>{2});
  std::string said;
  const WarningHandler before = set_warning_handler([&](const std::string& text) { said += text; });
  {
    const Environment none("PERIGEE_SHIM_DEVICES", "0");
    EXPECT_EQ(choice("auto").backend, Backend::cpu);
    EXPECT_EQ(said, "");
  }
  {
    const Environment older("PERIGEE_SHIM_CAPABILITY", "75");
    EXPECT_EQ(choice("auto").backend, Backend::cpu);
    EXPECT_EQ(choice("cuda:0").backend, Backend::cuda);
    expect_parts(said, {"--device: auto takes the CPU: shim 0, sm_75: ", "kernels for sm_80"});
  }
  const Environment old("PERIGEE_SHIM_DRIVER", "old");
  said.clear();
  EXPECT_EQ(choice("auto").backend, Backend::cpu);
  expect_parts(said, {"driver version is insufficient"});
  set_warning_handler(before);
}

}  // namespace
}  // namespace perigee
