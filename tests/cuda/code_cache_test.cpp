// Code that NVRTC has compiled, and where it is kept.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/cuda/library/nvrtc_cache.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

TEST(CodeCache, CompilesOnceAndAnewWhenAFileIsDamaged) {
  const fs::path folder = fs::path(testing::TempDir()) / ("perigee_code_" + std::to_string(::getpid()));
  const CodeCache cache(folder.string());
  int compiled = 0;
  const auto get = [&](const std::string& key) { return cache.get(key, [&] { return "code of " + key + std::to_string(++compiled); }); };
  EXPECT_EQ(get("a"), "code of a1");
  EXPECT_EQ(get("a"), "code of a1");
  EXPECT_EQ(get("b"), "code of b2");
  const std::string path = cache.path_of("a");
  std::string whole;
  {
    std::ifstream file(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto replace = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
  for (size_t at = 0; at < whole.size(); ++at) {  // any byte
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    replace(damaged);
    const int before = compiled;
    EXPECT_EQ(get("a"), "code of a" + std::to_string(before + 1)) << at;
  }
  replace(whole.substr(0, whole.size() / 2));
  const int twice = compiled;
  EXPECT_EQ(get("a"), "code of a" + std::to_string(twice + 1));
  fs::copy_file(cache.path_of("b"), path, fs::copy_options::overwrite_existing);  // whole, of another key
  EXPECT_EQ(get("a"), "code of a" + std::to_string(twice + 2));
  EXPECT_EQ(cache.get("c", [] { return std::string(); }), "");
  EXPECT_FALSE(fs::exists(cache.path_of("c")));
  fs::remove_all(folder);
}

TEST(CodeCache, WhereNothingCanBeWrittenItIsCompiledEachTime) {
  const fs::path file = fs::path(testing::TempDir()) / ("perigee_no_folder_" + std::to_string(::getpid()));
  std::ofstream(file) << "not a folder";
  const CodeCache cache((file / "cuda").string());
  int compiled = 0;
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(cache.get("a", [&] { return "code " + std::to_string(++compiled); }), "code " + std::to_string(i));
  fs::remove(file);
}

// Programs that start at once compile the same; a concurrent reader sees a whole entry or none.
TEST(CodeCache, ManyMayWriteTheSameAtOnce) {
  const fs::path folder = fs::path(testing::TempDir()) / ("perigee_shared_" + std::to_string(::getpid()));
  const std::string code(300000, 'c');
  const auto share = [&] {
    const CodeCache cache(folder.string());
    bool same = true;
    for (int turn = 0; turn < 200; ++turn) {
      same = same && cache.get("a", [&] { return code; }) == code;
      std::error_code ignored;
      if (turn % 2 == 0) fs::remove(cache.path_of("a"), ignored);
    }
    return same;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) ::_exit(share() ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()),
            fs::exists(CodeCache(folder.string()).path_of("a")) ? 1 : 0);
  fs::remove_all(folder);
}

TEST(CodeCache, DropsWhatWasNotUsedForLongest) {
  const fs::path folder = fs::path(testing::TempDir()) / ("perigee_bound_" + std::to_string(::getpid()));
  const CodeCache cache(folder.string());
  for (size_t i = 0; i < CodeCache::kMostFiles + 10; ++i) cache.get(std::to_string(i), [] { return std::string("code"); });
  const auto count = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  EXPECT_LE(static_cast<size_t>(count), CodeCache::kMostFiles);
  EXPECT_TRUE(fs::exists(cache.path_of(std::to_string(CodeCache::kMostFiles + 9))));
  fs::remove_all(folder);
}

TEST(CompileCuda, TakesTheNewestArchitectureThatNvrtcKnows) {
  std::string why;
  EXPECT_TRUE(compile_cuda("// exact", 9, 0, &why).starts_with("// sm_90\n"));
  EXPECT_TRUE(compile_cuda("// later", 10, 3, &why).starts_with("// compute_90\n"));
  EXPECT_EQ(compile_cuda("#error", 9, 0, &why), "");
  EXPECT_TRUE(why.starts_with("#error")) << why;
}

}  // namespace
}  // namespace perigee
