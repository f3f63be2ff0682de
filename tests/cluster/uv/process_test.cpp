// Worker processes: this test program started again as its own child.
#include "cluster/uv/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

namespace perigee {
namespace {

std::vector<std::string> open_descriptors() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code status;
    const auto target = std::filesystem::read_symlink(entry.path(), status);
    if (status || target.string().find("/proc/") == 0) continue;  // of the listing itself
    found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The child's name selects what it does.
int be_child(int argc, char** argv) {
  const std::string name = argc > 2 ? argv[2] : "";
  char key[256] = {};
  const ssize_t size = read(kKeyDescriptor, key, sizeof key - 1);
  if (name == "crash") {
    std::fprintf(stderr, "first line\nlast words\n");
    return 7;
  }
  if (name == "flood") {
    for (int i = 0; i < 20000; ++i) std::fprintf(stderr, "line %d\n", i);
    return 1;
  }
  if (name == "report") {  // key, command line, descriptors
    std::fprintf(stderr, "key %s %d\n", key, static_cast<int>(size));
    for (int i = 0; i < argc; ++i) std::fprintf(stderr, "%s ", argv[i]);
    std::fprintf(stderr, "\nopen");
    for (const std::string& descriptor : open_descriptors()) std::fprintf(stderr, " %s", descriptor.c_str());
    std::fprintf(stderr, "\n");
    return 0;
  }
  for (;;) pause();
}

struct End {
  int code = -1, signal = -1;
  std::string tail;
};

class ProcessTest : public testing::Test {
 protected:
  ProcessTest() { uv_loop_init(&loop); }
  ~ProcessTest() override {
    processes.reset();
    EXPECT_EQ(uv_loop_close(&loop), 0) << "a handle is left";
  }
  void make(UvProcessOptions options = {}) {
    processes = std::make_unique<UvProcesses>(
        &loop, std::move(options),
        [this](uint32_t process, int code, int signal, const std::string& tail) {
          ends[process] = {code, signal, tail};
        },
        [this](const std::string&, const std::string& line) { lines.push_back(line); });
  }
  uint32_t start(const std::string& what) {
    std::string error;
    const uint32_t process = processes->start({.name = what, .coordinator = "127.0.0.1:1", .key = "c0ffee", .threads = 3}, &error);
    EXPECT_EQ(error, "");
    return process;
  }
  End end_of(uint32_t process) {
    while (!ends.contains(process)) uv_run(&loop, UV_RUN_ONCE);
    return ends[process];
  }

  uv_loop_t loop;
  std::unique_ptr<UvProcesses> processes;
  std::map<uint32_t, End> ends;
  std::vector<std::string> lines;
};

TEST_F(ProcessTest, ChildGetsItsKeyAndNothingElse) {
  const int left_open = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as careless libraries do
  make({.die_with_parent = true});
  const End end = end_of(start("report"));
  close(left_open);
  EXPECT_EQ(end.code, 0);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "key c0ffee 6");
  EXPECT_EQ(lines[1],
            "perigee worker report --join 127.0.0.1:1 --key-fd 3 --threads 3 --slot 0 --parent " + std::to_string(getpid()) + " ");
  EXPECT_EQ(lines[2], "open 0 1 2 3");
}

TEST_F(ProcessTest, TheEndComesWithTheLastWords) {
  make();
  const End end = end_of(start("crash"));
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.tail, "first line\nlast words");
}

TEST_F(ProcessTest, TheTailIsBounded) {
  make();
  const End end = end_of(start("flood"));
  EXPECT_LE(end.tail.size(), kTailBytes);
  EXPECT_NE(end.tail.find("line 19999"), std::string::npos);
}

TEST_F(ProcessTest, StopAsksOrKills) {
  make();
  const uint32_t kind = start("wait"), firm = start("wait");
  processes->stop(kind, false);
  processes->stop(firm, true);
  EXPECT_EQ(end_of(kind).signal, SIGTERM);
  EXPECT_EQ(end_of(firm).signal, SIGKILL);
  EXPECT_EQ(processes->running(), 0u);
}

TEST_F(ProcessTest, AProgramThatIsNotThereIsAnError) {
  make({.program = "/nowhere/perigee"});
  std::string error;
  EXPECT_EQ(processes->start({.name = "x", .key = "k"}, &error), 0u);
  EXPECT_NE(error.find("/nowhere/perigee"), std::string::npos);
  EXPECT_EQ(processes->running(), 0u);
}

TEST_F(ProcessTest, NothingLeaksOverManyProcesses) {
  make();
  end_of(start("crash"));
  const auto before = open_descriptors();
  for (int i = 0; i < 20; ++i) end_of(start("crash"));
  while (uv_loop_alive(&loop)) uv_run(&loop, UV_RUN_ONCE);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ProcessTest, WhatIsLeftEndsWithItsOwner) {
  make();
  const uint32_t process = start("wait");
  processes.reset();
  EXPECT_NE(kill(static_cast<pid_t>(process), 0), 0);
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "worker") == 0) return perigee::be_child(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
