// An agent's --data-root: what a job may open on another user's machine, and what it may not, however the links lie.
#include "cluster/data/rooted_opener.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/io/codec/compress.h"
#include "src/io/file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRows = "a,b,y\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n";

class RootedOpenerTest : public testing::Test {
 protected:
  void SetUp() override {
    base_ = fs::canonical(fs::temp_directory_path()) /
            ("rooted." + std::to_string(getpid()) + "." + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(base_);
    fs::create_directories(root());
    fs::create_directories(outside());
    write(root() / "in.csv", kRows);
    write(outside() / "out.csv", kRows);
  }
  void TearDown() override { fs::remove_all(base_); }

  fs::path root() const { return base_ / "root"; }
  fs::path outside() const { return base_ / "outside"; }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

  // "" when it opens; else why not.
  std::string problem(RootedOpener& opener, const std::string& file) {
    const Json json = Json::object();
    Json description = Json(Json::Object{{"type", "csv"}, {"file", file}, {"target", "y"}});
    try {
      opener.open("train", Config(description, "job"), "/elsewhere");
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path base_;
};

TEST_F(RootedOpenerTest, OpensWhatLiesUnderTheRootAndNothingElse) {
  fs::create_symlink(outside() / "out.csv", root() / "link.csv");
  fs::create_symlink(outside(), root() / "folder");
  fs::create_symlink(root() / "in.csv", root() / "absolute.csv");
  fs::create_symlink("in.csv", root() / "relative.csv");
  fs::create_symlink(root(), outside() / "other_way");
  RootedOpener opener(root().string());
  for (const std::string& file : {std::string("in.csv"), (root() / "in.csv").string(), std::string("absolute.csv"),
                                  std::string("relative.csv"), (outside() / "other_way" / "in.csv").string(), std::string("x/../in.csv")})
    EXPECT_EQ(problem(opener, file), "") << file;
  for (const std::string& file : {std::string("link.csv"), std::string("folder/out.csv"), (outside() / "out.csv").string(),
                                  std::string("../outside/out.csv"), std::string("/etc/passwd"), (root().string() + "2/in.csv")})
    EXPECT_NE(problem(opener, file).find("leads out of the folder"), std::string::npos) << file << ": " << problem(opener, file);
  EXPECT_NE(problem(opener, "none.csv").find("none.csv"), std::string::npos);
}

// A path changes between check and open.
TEST_F(RootedOpenerTest, HoldsForLinksThatCameAfterTheLook) {
  RootedOpener opener(root().string());
  fs::create_symlink(outside() / "out.csv", root() / "late.csv");
  fs::create_symlink(outside(), root() / "late");
  EXPECT_THROW(read_file((root() / "late.csv").string()), Error);
  EXPECT_THROW(read_file((root() / "late" / "out.csv").string()), Error);
  EXPECT_THROW(MappedFile((root() / "late.csv").string()), Error);
  EXPECT_THROW(list_folder((root() / "late").string()), Error);
  EXPECT_FALSE(file_exists((root() / "late.csv").string()));
  EXPECT_FALSE(folder_exists((root() / "late").string()));
  EXPECT_TRUE(file_exists((root() / "in.csv").string()));
  EXPECT_NO_THROW(read_file((outside() / "out.csv").string())) << "other paths are not concerned";
}

TEST_F(RootedOpenerTest, WhatWasUnpackedBeforeIsNoWayOut) {
  // The decompressed content of a file outside lies in this user's cache.
  constexpr unsigned char kGzip[] = {0x1f, 0x8b, 8,    0, 0, 0,    0,    0,    0,    3, 0x2b, 0x4e, 0x4d,
                                     0x2e, 0x4a, 0x2d, 1, 0, 0xbd, 0x0b, 0xb1, 0x56, 6, 0,    0,    0};
  write(outside() / "secret.gz", std::string(reinterpret_cast<const char*>(kGzip), sizeof kGzip));
  try {
    FileContent::open((outside() / "secret.gz").string(), 1 << 20);
  } catch (const Error&) {
    // Whether this very archive is in order does not matter here.
  }
  RootedOpener opener(root().string());
  fs::create_symlink(outside() / "secret.gz", root() / "late.gz");
  EXPECT_THROW(FileContent::open((root() / "late.gz").string(), 1 << 20), Error);
}

TEST_F(RootedOpenerTest, ALinkThatGoesToAndFroIsNeverFollowedOut) {
  write(root() / "inside.txt", "inside");
  write(outside() / "secret.txt", "secret");
  const fs::path path = root() / "file.txt";
  RootedOpener opener(root().string());
  std::atomic<bool> over = false;
  std::thread swapper([&] {
    for (int i = 0; !over; ++i) {
      const fs::path fresh = root() / "fresh";
      fs::create_symlink(i % 2 == 0 ? outside() / "secret.txt" : root() / "inside.txt", fresh);
      fs::rename(fresh, path);
    }
  });
  int read = 0, refused = 0;
  for (int i = 0; i < 200'000 && (i < 2000 || read == 0 || refused == 0); ++i) {
    try {
      const Bytes bytes = read_file(path.string());
      ASSERT_EQ(as_text(bytes), "inside");
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  over = true;
  swapper.join();
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(RootedOpenerTest, ImagesThatAreReadLaterAreConfinedToo) {
  fs::create_directories(root() / "pets" / "cat");
  write(root() / "pets" / "cat" / "1.png", "no image yet");
  write(outside() / "private.png", "private");
  RootedOpener opener(root().string());
  const Json json = Json::parse(R"({"type": "images", "folder": "pets", "size": 4})", "job");
  const SourcePtr source = opener.open("train", Config(json, "job"), ".");
  fs::remove(root() / "pets" / "cat" / "1.png");
  fs::create_symlink(outside() / "private.png", root() / "pets" / "cat" / "1.png");
  std::vector<float> x(48);
  int64_t y = 0;
  std::byte* slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&y)};
  try {
    source->read({}, slots);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("leads out"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace perigee
