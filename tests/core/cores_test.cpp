// Limits of control groups, of both versions, in a file system of our own.
#include "src/core/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace perigee {
namespace {

class Cores : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/perigee-cores-XXXXXX";
    root = mkdtemp(folder);
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + file).parent_path());
    std::ofstream(root + file) << text;
  }
  std::string root;
};

TEST_F(Cores, NothingIsNoLimit) {
  EXPECT_EQ(quota_cores(root), 0);
  EXPECT_EQ(quota_memory(root), 0);
  write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(quota_cores(root), 0);
  EXPECT_EQ(quota_memory(root), 0);
  EXPECT_GE(available_cores(), 1);
}

TEST_F(Cores, TheCoresThatTheProcessIsBoundTo) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_cores(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST_F(Cores, TheContainersOwnQuota) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  write("/sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(quota_cores(root), 2) << "one and a half";
  EXPECT_EQ(quota_memory(root), 1 << 30);
}

TEST_F(Cores, TheSmallestOfAllAbove) {
  write("/proc/self/cgroup", "0::/pods/one\n");
  write("/sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/pods/cpu.max", "400000 100000\n");
  write("/sys/fs/cgroup/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota_cores(root), 4);
}

TEST_F(Cores, TheFirstVersion) {
  write("/proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(quota_cores(root), 1);
  EXPECT_EQ(quota_memory(root), 0);
}

TEST_F(Cores, NonsenseIsNoLimit) {
  write("/proc/self/cgroup", "0::/../..\nnonsense\n");
  for (const char* text : {"", "x y", "100000", "100000 0", "-5 100000", "nan nan"}) {
    write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(quota_cores(root), 0) << text;
  }
}

}  // namespace
}  // namespace perigee
