// Choosing kernels on a device, with the shim's module, whose stand-ins take as long on the device's clock as a test says: two kernels for
// each op ("stand-in" comes first), of which one may know several algorithms.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <tuple>

#include "cluster/launch/cluster_job.h"
#include "src/core/warning.h"
#include "src/run/checkpoint.h"
#include "tests/train/device/device_site.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

void takes(const std::string& way, const std::vector<double>& times_ms) {
  of_module<void(const char*, const double*, int)>("shim_kernel")(way.c_str(), times_ms.data(), static_cast<int>(times_ms.size()));
}
// As a process that comes after one whose device is lost.
void start_anew() { of_module<void(const char*, long)>("shim_fault")("", 0); }
long runs(const std::string& way) { return of_module<long(const char*)>("shim_runs")(way.c_str()); }

class DeviceTuning : public testing::Test {
 protected:
  DeviceTuning() : before_(set_warning_handler([this](const std::string& text) { warnings += text + "\n"; })) {
    fs::remove_all(folder);
    setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    takes("", {});
  }
  ~DeviceTuning() override {
    set_warning_handler(std::move(before_));
    unsetenv("PERIGEE_SHIM_NAME");
    takes("", {});
    fs::remove_all(folder);
  }

  std::vector<fs::path> tables() const {
    std::vector<fs::path> found;
    if (fs::exists(folder + "/perigee"))
      for (const auto& entry : fs::directory_iterator(folder + "/perigee"))
        if (entry.path().extension() == ".json") found.push_back(entry.path());
    return found;
  }

  const std::string folder = testing::TempDir() + "device_tuning";
  std::string warnings;

 private:
  WarningHandler before_;
};

// The kernels that ran during `steps` steps.
long ran(Trainer& trainer, const std::string& way, int steps = 3) {
  trainer.step();  // both buffers capture
  trainer.step();
  const long before = runs(way);
  for (int i = 0; i < steps; ++i) trainer.step();
  return runs(way) - before;
}

TEST_F(DeviceTuning, TheFastestIsChosenAndTheTableIsKept) {
  takes("conv2d_pool/other", {5, 0.5, 3});
  takes("linear/other", {0.98});  // not clearly faster
  Trainer first(lenet_job(), kDevice), reference(lenet_job(), kReference);
  EXPECT_GT(first.measured(), 5);
  EXPECT_EQ(ran(first, "conv2d_pool/other#1"), 2 * 3);  // two layers
  EXPECT_EQ(ran(first, "linear/stand-in"), 2 * 3);
  EXPECT_EQ(ran(first, "conv2d_pool/stand-in") + ran(first, "linear/other"), 0);
  for (int64_t i = 0; i < first.position().step; ++i) reference.step();
  EXPECT_EQ(bits_of(first), bits_of(reference));
  ASSERT_EQ(tables().size(), 1u);

  takes("conv2d_pool/stand-in", {0.01});  // it is not looked at again
  Trainer second(lenet_job(), kDevice);
  EXPECT_EQ(second.measured(), 0);
  EXPECT_EQ(ran(second, "conv2d_pool/other#1"), 2 * 3);
  EXPECT_EQ(warnings, "");
}

TEST_F(DeviceTuning, AnotherDeviceIsMeasuredAnew) {
  takes("linear/other", {0.1});
  EXPECT_GT(Trainer(tiny_job(), kDevice).measured(), 0);
  setenv("PERIGEE_SHIM_NAME", "NVIDIA another/one", 1);
  takes("linear/other", {10});
  Trainer another(tiny_job(), kDevice);
  EXPECT_GT(another.measured(), 0);
  EXPECT_EQ(ran(another, "linear/stand-in"), 3);
  ASSERT_EQ(tables().size(), 2u);
}

// Two runs would have other bits where each measured for itself.
TEST_F(DeviceTuning, WhatIsToHaveTheSameBitsIsNotChosenByTime) {
  takes("linear/other", {0.1});
  Trainer trainer(tiny_job(R"(, "deterministic": true)"), kDevice);
  EXPECT_EQ(trainer.measured(), 0);
  EXPECT_EQ(ran(trainer, "linear/stand-in"), 3);
  EXPECT_TRUE(tables().empty());
  EXPECT_EQ(ran(*std::make_unique<Trainer>(tiny_job(), kDevice), "linear/other"), 3);
}

// The choices that a run of one process measured on this machine.
TEST_F(DeviceTuning, WorkersChooseByTheTableThatComesWithTheJob) {
  EXPECT_EQ(ClusterJob(tiny_job(), kDevice).tuning, "{}");
  takes("linear/other", {0.1});
  EXPECT_GT(Trainer(tiny_job(), kDevice).measured(), 0);
  takes("", {});
  TrainerOptions worker = kDevice;
  worker.measure = false;
  worker.tuning = Json::parse(ClusterJob(tiny_job(), kDevice).tuning, "tuning");
  Trainer tuned(tiny_job(), worker);
  EXPECT_EQ(tuned.measured(), 0);
  EXPECT_EQ(ran(tuned, "linear/other"), 3);
  EXPECT_EQ(ClusterJob(tiny_job(R"(, "deterministic": true)"), kDevice).tuning, "{}");
  const Environment none("PERIGEE_SHIM_DEVICES", "0");
  EXPECT_EQ(ClusterJob(tiny_job(), kDevice).tuning, "{}");
}

TEST_F(DeviceTuning, ADamagedTableIsMadeAnewWithAWarning) {
  takes("linear/other", {0.1});
  const int measured = Trainer(tiny_job(), kDevice).measured();
  ASSERT_EQ(tables().size(), 1u);
  std::ofstream(tables()[0]) << "{\"linear";
  EXPECT_EQ(Trainer(tiny_job(), kDevice).measured(), measured);
  EXPECT_NE(warnings.find("damaged"), std::string::npos) << warnings;
  EXPECT_EQ(Trainer(tiny_job(), kDevice).measured(), 0);
}

TEST_F(DeviceTuning, WithoutMeasuringTheFirstRunsAndNothingIsWritten) {
  takes("linear/other", {0.1});
  TrainerOptions options = kDevice;
  options.measure = false;
  Trainer trainer(tiny_job(), options);
  EXPECT_EQ(trainer.measured(), 0);
  EXPECT_EQ(ran(trainer, "linear/stand-in"), 3);
  EXPECT_TRUE(tables().empty());
}

TEST_F(DeviceTuning, ACheckpointBringsItsChoices) {
  const std::string path = testing::TempDir() + "device_tuning_checkpoint";
  takes("linear/other", {0.1});
  {
    Trainer first(tiny_job(), kDevice);
    first.step();
    save_checkpoint(first, path, {});
  }
  fs::remove_all(folder);
  takes("", {});
  TrainerOptions options = kDevice;
  options.measure = false;
  Trainer second(tiny_job(), options);
  second.step();
  load_checkpoint(second, path);
  EXPECT_EQ(ran(second, "linear/other"), 3);
  setenv("PERIGEE_SHIM_NAME", "another", 1);  // its numbers of algorithms mean nothing here
  Trainer elsewhere(tiny_job(), options);
  load_checkpoint(elsewhere, path);
  EXPECT_EQ(ran(elsewhere, "linear/stand-in"), 3);
}

// cuDNN may have no plan within the workspace: the next kernel runs, measured or not.
TEST_F(DeviceTuning, WhatALibraryRefusesRunsOnTheNextKernel) {
  takes("linear/stand-in", {-1});
  TrainerOptions options = kDevice;
  options.measure = false;
  for (const TrainerOptions& each : {options, kDevice}) {
    warnings.clear();
    Trainer trainer(tiny_job(), each), reference(tiny_job(), kReference);
    EXPECT_EQ(ran(trainer, "linear/other"), 3);
    EXPECT_NE(warnings.find("op 'linear' runs on another kernel, 'other': refused by the test"), std::string::npos) << warnings;
    for (int i = 0; i < 5; ++i) reference.step();
    EXPECT_EQ(bits_of(trainer), bits_of(reference));
  }
  takes("linear/other", {-1});
  std::string error;
  try {
    Trainer(tiny_job(), options).step();
  } catch (const Error& caught) {
    error = caught.what();
  }
  EXPECT_NE(error.find("no kernel runs"), std::string::npos) << error;
  EXPECT_NE(error.find("refused by the test"), std::string::npos) << error;
}

// A fault ends the process; the next one leaves the algorithm out, whichever it is, and never runs it again.
TEST_F(DeviceTuning, AnAlgorithmThatLosesTheDeviceIsLeftOutByTheNextProcess) {
  const std::vector<double> first = {-3, 1, 0.5}, between = {1, -3, 0.5}, last = {1, 0.5, -3}, only = {-3};
  using Case = std::tuple<std::vector<double>, const char*, const char*>;
  for (const auto& [times, lost, best] : {Case{first, "stand-in", "linear/stand-in#2"}, Case{between, "stand-in#1", "linear/stand-in#2"},
                                          Case{last, "stand-in#2", "linear/stand-in#1"}, Case{only, "stand-in", "linear/other"}}) {
    takes("", {});
    takes("linear/stand-in", times);
    fs::remove_all(folder);
    warnings.clear();
    EXPECT_NE(error_of([] { Trainer(tiny_job(), kDevice); }).find("illegal memory access"), std::string::npos) << lost;
    EXPECT_EQ(warnings, "");
    start_anew();
    const std::string left = "op 'linear' leaves out '" + std::string(lost) + "', in which the GPU was lost before; without ";
    EXPECT_EQ(ran(*std::make_unique<Trainer>(tiny_job(), kDevice), best), 3) << lost;
    EXPECT_NE(warnings.find(left + tables().at(0).string()), std::string::npos) << warnings;
    Trainer another(tiny_job(), kDevice);
    EXPECT_EQ(another.measured(), 0);
    EXPECT_EQ(ran(another, best), 3) << lost;
  }
}

// A kernel that ran when it was measured may fault later on.
TEST_F(DeviceTuning, AKnownChoiceThatLosesTheDeviceIsChosenAnew) {
  takes("linear/stand-in", {1, 0.5, 2});
  EXPECT_GT(Trainer(tiny_job(), kDevice).measured(), 0);
  takes("linear/stand-in", {1, -3, 2});
  EXPECT_NE(error_of([] { Trainer(tiny_job(), kDevice); }).find("illegal memory access"), std::string::npos);
  start_anew();
  Trainer next(tiny_job(), kDevice);
  EXPECT_GT(next.measured(), 0);
  EXPECT_EQ(ran(next, "linear/stand-in"), 3);
}

// Where nothing else is left the planned kernel is tried again.
TEST_F(DeviceTuning, WhatHasNoRivalIsTriedAgain) {
  takes("linear/stand-in", {-3});
  takes("linear/other", {-3});
  for (int process = 0; process < 3; ++process) {
    EXPECT_NE(error_of([] { Trainer(tiny_job(), kDevice); }).find("illegal memory access"), std::string::npos);
    start_anew();
  }
  takes("", {});
  EXPECT_EQ(ran(*std::make_unique<Trainer>(tiny_job(), kDevice), "linear/stand-in"), 3);
}

// So is what every library refuses: that loses no device.
TEST_F(DeviceTuning, WhatIsRefusedIsNotLeftOut) {
  takes("linear/stand-in", {-1});
  takes("linear/other", {-1});
  EXPECT_NE(error_of([] { Trainer(tiny_job(), kDevice); }).find("no kernel runs"), std::string::npos);
  takes("", {});
  EXPECT_EQ(ran(*std::make_unique<Trainer>(tiny_job(), kDevice), "linear/stand-in"), 3);
  EXPECT_EQ(warnings.find("leaves out"), std::string::npos) << warnings;
}

// A library that waits while it queues runs by itself, but not in a step's graph.
TEST_F(DeviceTuning, WhatCannotBeCapturedRunsOnTheNextKernel) {
  takes("linear/stand-in", {-2});
  TrainerOptions options = kDevice;
  options.measure = false;
  for (const TrainerOptions& each : {options, kDevice}) {
    warnings.clear();
    Trainer trainer(tiny_job(), each);
    EXPECT_EQ(ran(trainer, "linear/other"), 3);
    EXPECT_NE(warnings.find("op 'linear' runs on another kernel, 'other'"), std::string::npos) << warnings;
  }
}

// An algorithm that is refused is no choice, and those behind it are: also where the library's own first choice is refused.
TEST_F(DeviceTuning, AnAlgorithmThatIsRefusedIsPassedOver) {
  const std::vector<double> last = {1, 0.5, -1}, first = {-1, 2, 0.5}, between = {3, -2, 0.5};
  for (const auto& [times, best] : {std::pair{last, "linear/stand-in#1"}, {first, "linear/stand-in#2"}, {between, "linear/stand-in#2"}}) {
    takes("", {});
    takes("linear/stand-in", times);
    fs::remove_all(folder);
    Trainer trainer(tiny_job(), kDevice);
    EXPECT_EQ(ran(trainer, best), 3) << best;
    EXPECT_EQ(warnings, "");
  }
}

TEST_F(DeviceTuning, ARefusedFirstChoiceIsPassedOverInAllLayersOfAShape) {
  takes("linear/stand-in", {-1, 2, 0.5});
  Trainer trainer(job_of(R"([{"type": "flatten"}, {"type": "dense", "out": 24}, {"type": "dense", "out": 24}, {"type": "dense", "out": 24},
                             {"type": "dense", "out": 24}, {"type": "dense", "out": 10}])"),
                  kDevice);
  EXPECT_EQ(ran(trainer, "linear/stand-in#2"), 4 * 3);  // the last layer is a part of the head
  EXPECT_EQ(warnings, "");
}

TEST_F(DeviceTuning, WithoutMeasuringTheNextAlgorithmRunsBeforeAnotherKernel) {
  takes("linear/stand-in", {-1, -2, 1});
  TrainerOptions options = kDevice;
  options.measure = false;
  Trainer trainer(tiny_job(), options);
  EXPECT_EQ(ran(trainer, "linear/stand-in#2"), 3);
  EXPECT_NE(warnings.find("op 'linear' runs on another kernel, 'stand-in#2': refused by the test"), std::string::npos) << warnings;
}

}  // namespace
}  // namespace perigee
