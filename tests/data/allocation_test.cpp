// Once warm, a loader allocates nothing: not the loader, not its threads, not the sources and transforms below it. Neither does a step, also
// where lengths and weights say how much its examples count.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "src/data/arrays.h"
#include "src/data/loader.h"
#include "src/io/file.h"
#include "src/train/trainer.h"
#include "tests/data/fixtures.h"
#include "tests/io/temporary.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}  // std::stable_sort's buffer
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace perigee {
namespace {

TEST(Loader, AllocatesNothingOnceWarm) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", as_bytes("Resolved. resolved."));
  const std::string digits = R"({"type":"digits","size":100})", recordings = source_examples(folder.path()).at("audio").dump();
  const std::string array = R"({"type":"arrays","x":[[[1,2],[3,4]],[[5,6],[7,8]],[[5,6],[7,8]]],"y":[0,1,1]})";
  for (const std::string& description :
       {digits, R"({"type":"split","parts":[0.5,0.5],"part":0,"source":)" + digits + "}",
        R"({"type":"map","transforms":[{"type":"shift"},{"type":"flip"},{"type":"scale"},{"type":"rotate"},{"type":"one_hot"}],"source":)" +
            digits + "}",
        R"({"type":"concat","sources":[)" + array + "," + array + "]}",
        R"({"type":"map","transforms":[{"type":"noise"},{"type":"mfcc"},{"type":"spec_augment"}],"source":)" + recordings + "}",
        std::string(R"({"type":"text","file":["a.txt","a.txt"],"context":4})")})
    for (int threads : {0, 2}) {
      const Json json = Json::parse(description, "test");
      Loader loader(open_source(Config(json, "test"), folder.path()), {.batch = 7, .threads = threads});
      // A thread may come to its first batch late on a busy machine: warm is when nothing has been allocated for a while.
      int64_t made = -1;
      for (int round = 0; round < 20 && made != 0; ++round) {
        const int64_t before = allocations.load();
        for (int i = 0; i < 100; ++i) loader.next();
        made = allocations.load() - before;
      }
      EXPECT_EQ(made, 0) << description << ", " << threads << " threads";
    }
}

int64_t allocations_of_steps(Trainer& trainer) {
  int64_t made = -1;
  for (int round = 0; round < 20 && made != 0; ++round) {
    const int64_t before = allocations.load();
    for (int i = 0; i < 50; ++i) trainer.step();
    made = allocations.load() - before;
  }
  return made;
}

TEST(Trainer, AStepAllocatesNothingOnceWarm) {
  const Json job =
      Json::parse(R"({"network": [{"type": "conv1d", "out": 3, "kernel": 3, "padding": "same"}, {"type": "conv1d", "out": 2, "kernel": 1}],
    "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.01}, "seed": 3, "epochs": 1000000, "data": {"batch": 2, "train":
    {"type": "arrays", "x": [[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[1, 0, 1]]], "y": [[0, 1, -1], [1, 0, 1], [0, -1, -1], [1, 1, 0]],
     "n": [2, 3, 1, 3], "w": [1, 0.5, 2, 1]}, "lengths": {"x": "n"}, "weights": "w"}})",
                  "job");
  Trainer trainer(Job(job, "job"), {.threads = 1, .measure = false});
  ASSERT_TRUE(trainer.weighted());
  EXPECT_EQ(allocations_of_steps(trainer), 0);
}

TEST(Trainer, AStepThatCarriesStateAllocatesNothingOnceWarm) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", as_bytes("one, two, three; one, two, three; one"));
  const Json job = Json::parse(R"({"network": [{"type": "embedding", "size": 14, "out": 3}, {"type": "lstm", "units": 4, "state": "carry"},
    {"type": "dense", "out": 14, "over": "steps"}], "loss": "cross_entropy", "optimizer": "adam", "seed": 3, "epochs": 1000000,
    "data": {"batch": 2, "train": {"type": "text", "file": "a.txt", "context": 4, "targets": "every", "streams": 2}}})",
                               "job");
  Trainer trainer(Job(job, "job", folder.path()), {.threads = 1, .measure = false});
  EXPECT_EQ(allocations_of_steps(trainer), 0);
}

}  // namespace
}  // namespace perigee
