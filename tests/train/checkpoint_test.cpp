// Model files and checkpoints: they come back bit for bit, and nothing that is damaged is taken for whole.
#include "src/run/checkpoint_hook.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "src/core/pattern.h"
#include "src/core/warning.h"
#include "src/graph/tuning.h"
#include "src/io/file.h"
#include "src/io/safetensors.h"
#include "tests/io/temporary.h"
#include "tests/train/networks.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

void steps(Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) trainer.step();
}

class Warnings {
 public:
  Warnings() : before_(set_warning_handler([this](const std::string& text) { all.push_back(text); })) {}
  ~Warnings() { set_warning_handler(before_); }
  std::vector<std::string> all;

 private:
  WarningHandler before_;
};

// The Error that `work` throws, as text; empty when it throws none.
template <class Work>
std::string failure(Work&& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

using JobMaker = Job (*)(const std::string&);

Job float64_job(const std::string& more) { return noisy_job(R"(, "precision": "float64")" + more); }

class Resume : public testing::TestWithParam<std::pair<JobMaker, int>> {};

// 100 examples in batches of 16: seven steps an epoch, the last of 4 examples. Cut at every place of the second epoch.
TEST_P(Resume, InTheMiddleOfAnEpochEndsWithTheSameBits) {
  const auto [make, threads] = GetParam();
  const TemporaryFolder folder;
  const Job job = make("");
  Trainer whole(job, {.threads = threads});
  std::vector<Bits> expected;
  while (!whole.finished()) {
    whole.step();
    expected.push_back(bits_of(whole));
  }
  ASSERT_EQ(expected.size(), 21u);
  for (const int cut : {1, 6, 7, 8, 13, 14}) {
    const std::string path = folder / ("cut-" + std::to_string(cut) + ".safetensors");
    {
      Trainer first(job, {.threads = threads});
      steps(first, cut);
      ASSERT_EQ(bits_of(first), expected[static_cast<size_t>(cut) - 1]) << "the same seed gives the same bits";
      Json extra = Json::object();
      extra.set("best", 0.125);
      save_checkpoint(first, path, extra);
    }
    Trainer second(job, {.threads = threads});
    const Json extra = load_checkpoint(second, path);
    EXPECT_EQ(extra.find("best")->as_number(), 0.125);
    EXPECT_EQ(second.position().step, cut);
    EXPECT_EQ(bits_of(second), expected[static_cast<size_t>(cut) - 1]) << "what was saved is what is loaded";
    while (!second.finished()) second.step();
    EXPECT_EQ(bits_of(second), expected.back()) << "cut after step " << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Resume,
                         testing::Values(std::pair{&lenet_job, 1}, std::pair{&lenet_job, 2}, std::pair{&noisy_job, 1},
                                         std::pair{&noisy_job, 2}, std::pair{&float64_job, 2}),
                         [](const auto& info) {
                           return std::string(info.param.first == &lenet_job   ? "lenet"
                                              : info.param.first == &noisy_job ? "noisy"
                                                                               : "float64_") +
                                  std::to_string(info.param.second);
                         });

TEST(Model, RoundTripGivesTheSameNumbersAndPredictions) {
  const TemporaryFolder folder;
  Trainer trainer(noisy_job(), {.threads = 1});
  steps(trainer, 9);
  save_model(trainer, folder / "model.safetensors");
  LoadedModel loaded = load_model(folder / "model.safetensors");
  const Params &a = trainer.model().params(), &b = loaded.model->params();
  ASSERT_EQ(a.block_elements(), b.block_elements());
  EXPECT_EQ(std::memcmp(a.block(), b.block(), a.block_bytes()), 0);
  ASSERT_EQ(a.state_specs().size(), b.state_specs().size());
  ASSERT_GT(a.state_specs().size(), 0u);
  for (size_t i = 0; i < a.state_specs().size(); ++i) {
    const Tensor x = a.state_tensor(static_cast<int>(i)), y = b.state_tensor(static_cast<int>(i));
    EXPECT_EQ(std::memcmp(x.view().data, y.view().data, x.bytes()), 0) << a.state_specs()[i].name;
  }
  EXPECT_EQ(loaded.job, trainer.job().canonical());
  EXPECT_EQ(as_text(model_bytes(loaded)), as_text(read_file(folder / "model.safetensors"))) << "written again it is the same file";
  EXPECT_LT(fs::file_size(folder / "model.safetensors"), static_cast<uintmax_t>(a.block_elements()) * 4 + 16384) << "no optimiser tensors";
}

TEST(Model, OfAnEarlierVersionKeepsItsVarianceAsTheMeanOfSquares) {
  const TemporaryFolder folder;
  Trainer trainer(noisy_job(), {.threads = 1});
  steps(trainer, 9);
  save_model(trainer, folder / "model.safetensors");
  Safetensors file = read_safetensors(folder / "model.safetensors");
  const Tensor mean = *file.find("state/bn1.mean"), variance = *file.find("state/bn1.variance");
  for (NamedTensor& state : file.tensors)
    if (state.name == "state/bn1.variance") {
      state = {"state/bn1.mean_square", variance.clone()};
      for (int64_t i = 0; i < variance.elements(); ++i) state.tensor.data<float>()[i] += mean.data<float>()[i] * mean.data<float>()[i];
    }
  write_safetensors(folder / "earlier.safetensors", file.tensors, file.metadata);
  const LoadedModel loaded = load_model(folder / "earlier.safetensors");
  const Params& params = loaded.model->params();
  const Tensor read = params.state_tensor(params.find_state("bn1.variance"));
  for (int64_t i = 0; i < read.elements(); ++i) EXPECT_NEAR(read.data<float>()[i], variance.data<float>()[i], 1e-5);
}

TEST(Model, OfAnotherNetworkIsRefusedAndChangesNothing) {
  const TemporaryFolder folder;
  Trainer lenet(lenet_job(), {.threads = 1});
  save_checkpoint(lenet, folder / "lenet.safetensors");
  Trainer tiny(tiny_job(), {.threads = 1});
  steps(tiny, 2);
  const Bits before = bits_of(tiny);
  EXPECT_NE(failure([&] { load_checkpoint(tiny, folder / "lenet.safetensors"); }).find("does not fit the network"), std::string::npos);
  Trainer sgd(lenet_job(R"(, "name": "other")"), {.threads = 1});
  EXPECT_EQ(failure([&] { load_checkpoint(sgd, folder / "lenet.safetensors"); }), "") << "a name does not matter";
  save_model(tiny, folder / "model.safetensors");
  EXPECT_NE(failure([&] { load_checkpoint(tiny, folder / "model.safetensors"); }), "") << "a model is no checkpoint";
  EXPECT_EQ(bits_of(tiny), before);
}

TEST(Model, OfAnotherPrecisionIsRefusedAndSaysSo) {
  const TemporaryFolder folder;
  Trainer wide(float64_job(""), {.threads = 1}), narrow(noisy_job(), {.threads = 1});
  steps(wide, 2);
  save_checkpoint(wide, folder / "wide.safetensors");
  const Bits before = bits_of(narrow);
  const std::string error = failure([&] { load_checkpoint(narrow, folder / "wide.safetensors"); });
  for (const char* part : {"f64[", "f32[", "precision"}) EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(bits_of(narrow), before);
}

// --- Chosen kernels ---------------------------------------------------------------------------------------------------------------

Json tuning_in(const std::string& path) { return Json::parse(read_safetensors(path).metadata.at("tuning"), path); }

void write_table(const Json& choices) {
  Tuning all;
  all.merge(choices);
  fs::create_directories(fs::path(all.machine_file()).parent_path());
  write_file(all.machine_file(), as_bytes(choices.dump()));
}

// This machine's table has what other networks asked for too: none of it goes into the file, and the run needs none of it.
TEST(CheckpointTuning, HasTheChoicesOfItsOwnNetworkAlone) {
  const TemporaryFolder folder;
  const CacheFolder cache(folder / "cache");
  const std::string path = folder / "c.safetensors";
  const Job job = lenet_job();
  ASSERT_GT(Trainer(tiny_job(), {.threads = 1}).measured() + Trainer(job, {.threads = 1}).measured(), 1);
  Tuning machine;
  machine.load_machine();
  Json own;
  std::vector<Bits> expected;
  {
    Json table = machine.to_json();
    for (int i = 0; i < 100; ++i) table.set("linear 0[" + std::to_string(i) + ",]", "another network's");
    write_table(table);
    Trainer whole(job, {.threads = 1});
    EXPECT_EQ(whole.measured(), 0);
    steps(whole, 9);
    save_checkpoint(whole, path);
    CheckpointSnapshot snapshot;
    snapshot.take(whole, {});
    snapshot.write(folder / "snapshot.safetensors");
    own = tuning_in(path);
    EXPECT_EQ(own, tuning_in(folder / "snapshot.safetensors"));
    ASSERT_FALSE(own.as_object().empty());
    for (const auto& [key, kernel] : own.as_object()) EXPECT_NE(kernel.as_string(), "another network's") << key;
    for (int i = 0; i < 12; ++i) whole.step(), expected.push_back(bits_of(whole));
  }
  Json other = machine.to_json();  // which has changed its mind meanwhile
  for (auto& [key, kernel] : other.as_object()) kernel = key.starts_with("sub-batch") ? "1" : "reference";
  write_table(other);
  Trainer again(job, {.threads = 1});
  load_checkpoint(again, path);
  EXPECT_EQ(Json::parse(again.tuning().of_run().dump(), ""), own);
  for (const Bits& bits : expected) {
    again.step();
    ASSERT_EQ(bits_of(again), bits);
  }
}

// --- Damage -----------------------------------------------------------------------------------------------------------------------

Bytes tiny_checkpoint() {
  const TemporaryFolder folder;
  Trainer trainer(tiny_job(), {.threads = 1});
  steps(trainer, 3);
  save_checkpoint(trainer, folder / "c.safetensors");
  return read_file(folder / "c.safetensors");
}

TEST(Damage, TruncationAtAnyLengthIsFound) {
  const Bytes whole = tiny_checkpoint();
  ASSERT_GT(whole.size(), 2000u);
  EXPECT_EQ(failure([&] { load_model(whole, "whole"); }), "");
  for (size_t length = 0; length < whole.size(); ++length)
    ASSERT_NE(failure([&] { load_model(std::span(whole).first(length), "cut"); }), "")
        << "after " << length << " of " << whole.size() << " bytes";
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_NE(failure([&] { load_model(longer, "longer"); }), "");
}

TEST(Damage, AnyFlippedBitIsFound) {
  Bytes bytes = tiny_checkpoint();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto bit = std::byte{1} << (i % 8);
    bytes[i] ^= bit;
    ASSERT_NE(failure([&] { load_model(bytes, "flipped"); }), "") << "bit " << i % 8 << " of byte " << i;
    bytes[i] ^= bit;
  }
}

TEST(Damage, FallsBackToTheGenerationBefore) {
  const TemporaryFolder folder;
  Trainer trainer(tiny_job(), {.threads = 1});
  CheckpointFolder checkpoints(folder.path(), 3);
  std::vector<Bits> expected;
  for (int i = 0; i < 4; ++i) {
    steps(trainer, 2);
    checkpoints.save(trainer);
    expected.push_back(bits_of(trainer));
  }
  const std::vector<std::string> files = checkpoints.files();
  ASSERT_EQ(files.size(), 3u) << "the last three are kept";
  const Bytes newest = read_file(files[0]);

  Warnings warnings;
  Trainer other(tiny_job(), {.threads = 1});
  EXPECT_EQ(checkpoints.resume(other), files[0]);
  EXPECT_EQ(bits_of(other), expected[3]);
  for (const size_t at : {size_t{3}, size_t{200}, newest.size() / 2, newest.size() - 1}) {
    Bytes damaged = newest;
    damaged[at] ^= std::byte{4};
    write_file(files[0], damaged);
    warnings.all.clear();
    EXPECT_EQ(checkpoints.resume(other), files[1]);
    EXPECT_EQ(bits_of(other), expected[2]);
    ASSERT_EQ(warnings.all.size(), 1u);
    EXPECT_NE(warnings.all[0].find(files[0]), std::string::npos);
  }
  fs::resize_file(files[1], 0);
  EXPECT_EQ(checkpoints.resume(other), files[2]);
  EXPECT_EQ(bits_of(other), expected[1]);
  fs::resize_file(files[2], 100);
  EXPECT_NE(failure([&] { checkpoints.resume(other); }), "") << "none is left";
  EXPECT_EQ(bits_of(other), expected[1]) << "and nothing has changed";
}

TEST(Checkpoints, ThoseOfTrainingThatWasGivenUpAreSetAside) {
  const TemporaryFolder folder;
  Trainer trainer(tiny_job(), {.threads = 1});
  CheckpointFolder checkpoints(folder.path(), 2);
  std::vector<std::string> first;
  for (int i = 0; i < 4; ++i) {
    steps(trainer, 2);
    first.push_back(checkpoints.save(trainer));
  }
  Trainer again(tiny_job(), {.threads = 1});
  load_checkpoint(again, first[2]);
  steps(again, 1);
  const std::string newest = checkpoints.save(again);
  EXPECT_EQ(checkpoints.files(), (std::vector<std::string>{newest, first[2]})) << "the newest training, not the greatest step";
  EXPECT_TRUE(fs::exists(fs::path(folder.path()) / ("void-" + fs::path(first[3]).filename().string())));
}

// --- Headers that lie: written with a right digest or none, so that only the layout tells. ------------------------------------------

Bytes file_of(const std::string& header, size_t data_bytes) {
  Bytes bytes(8 + header.size() + data_bytes);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

std::string header_refusal(const std::string& header, size_t data_bytes) {
  return failure([&] { parse_safetensors(file_of(header, data_bytes), "lies.safetensors"); });
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& range) {
  return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[" + shape + "],\"data_offsets\":[" + range + "]}";
}

TEST(Lies, AreRefusedBeforeAnythingIsAllocated) {
  EXPECT_EQ(header_refusal("{" + tensor("a", "2", "0,8") + "," + tensor("b", "1", "8,12") + "}", 12), "");
  EXPECT_NE(header_refusal("{" + tensor("a", "2", "0,8") + "," + tensor("b", "2", "4,12") + "}", 12).find("overlaps"), std::string::npos);
  EXPECT_NE(header_refusal("{" + tensor("a", "2", "0,8") + "," + tensor("b", "2", "0,8") + "}", 8).find("overlaps"), std::string::npos);
  EXPECT_NE(header_refusal("{" + tensor("a", "2", "0,8") + "," + tensor("a", "1", "8,12") + "}", 12).find("'a'"), std::string::npos)
      << "duplicate";
  EXPECT_NE(header_refusal("{" + tensor("a", "2", "0,8") + "," + tensor("b", "1", "12,16") + "}", 16).find("hole"), std::string::npos);
  EXPECT_NE(header_refusal("{" + tensor("a", "4", "0,16") + "}", 12).find("truncated"), std::string::npos);
  EXPECT_NE(header_refusal("{" + tensor("a", "2", "0,8") + "}", 12).find("after the last"), std::string::npos);
  EXPECT_NE(header_refusal("{" + tensor("a", "3", "0,8") + "}", 8).find("another size"), std::string::npos);
  EXPECT_NE(header_refusal("{" + tensor("a", "4611686018427387904", "0,8") + "}", 8).find("too large"), std::string::npos) << "2^62 floats";
  EXPECT_NE(header_refusal("{" + tensor("a", "4294967296,4294967296", "0,0") + "}", 0).find("too large"), std::string::npos)
      << "wraps to zero";
  EXPECT_NE(header_refusal("{" + tensor("a", "0,4294967296,4294967296", "0,0") + "}", 0).find("too large"), std::string::npos) << "empty";
  EXPECT_NE(header_refusal("{" + tensor("a", "1099511627776", "0,4398046511104") + "}", 8).find("truncated"), std::string::npos)
      << "4 TiB in 8 bytes";
  EXPECT_NE(header_refusal("{" + tensor("a", "-2", "0,8") + "}", 8), "");
  EXPECT_NE(header_refusal("{" + tensor("a", "2", "8,0") + "}", 8), "");
  EXPECT_NE(header_refusal("{" + tensor("a", "1,1,1,1,1,1,1,1,2", "0,8") + "}", 8).find("dimensions"), std::string::npos);
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8).find("F33"), std::string::npos);
  EXPECT_NE(header_refusal(R"({"__metadata__":{"xxh3":"00112233445566778899aabbccddeeff"}})", 0).find("digest"), std::string::npos);
  Bytes huge(16);
  const uint64_t length = uint64_t{1} << 62;
  std::memcpy(huge.data(), &length, 8);
  EXPECT_NE(failure([&] { parse_safetensors(huge, "huge"); }), "");
}

// --- Full disks --------------------------------------------------------------------------------------------------------------------

// A disk of one megabyte for those who may mount one; for others, a limit on the size of each file.
class SmallDisk {
 public:
  SmallDisk() {
    mounted_ = ::geteuid() == 0 && ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    ::getrlimit(RLIMIT_FSIZE, &saved_);
  }
  ~SmallDisk() {
    mend();
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  // Leaves no room for a checkpoint.
  void fill() {
    if (mounted_) {
      const std::vector<char> chunk(1 << 16, 'x');
      std::FILE* file = std::fopen((folder_ / "filler").c_str(), "w");
      while (std::fwrite(chunk.data(), 1, chunk.size(), file) == chunk.size() && std::fflush(file) == 0) continue;
      std::fclose(file);
    } else {
      old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
      const rlimit small{4096, saved_.rlim_max};
      ::setrlimit(RLIMIT_FSIZE, &small);
    }
    full_ = true;
  }
  void mend() {
    if (!full_) return;
    if (mounted_) fs::remove(folder_ / "filler");
    else {
      ::setrlimit(RLIMIT_FSIZE, &saved_);
      std::signal(SIGXFSZ, old_handler_);
    }
    full_ = false;
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  bool mounted_ = false, full_ = false;
  rlimit saved_ = {};
  void (*old_handler_)(int) = SIG_DFL;
};

TEST(FullDisk, TrainingGoesOnAndTheOldCheckpointIsWhole) {
  SmallDisk disk;
  const Json schedule = Json::parse(R"({"every_steps": 2, "every_epochs": 0, "keep": 2})", "schedule");
  CheckpointHook hook(Config(schedule, "schedule"), disk.path());
  Trainer trainer(lenet_job(), {.threads = 1}), undisturbed(lenet_job(), {.threads = 1});
  trainer.add_hook(&hook);
  struct Stop final : Hook {
    void on_step(Trainer&, const StepReport& report) override { now = report.step >= at; }
    int64_t at = 0;
    std::atomic<bool> now{false};
  } stop;
  trainer.add_hook(&stop);
  const auto run_to = [&](int64_t step) {
    stop.at = step;
    stop.now = false;
    trainer.run(stop.now);
    hook.settle();
  };
  run_to(3);
  const std::vector<std::string> before = hook.folder().files();
  ASSERT_EQ(before.size(), 1u);
  const Bytes content = read_file(before[0]);

  Warnings warnings;
  disk.fill();
  run_to(10);
  EXPECT_EQ(trainer.position().step, 10);
  EXPECT_EQ(warnings.all.size(), 1u) << "said once, not at each step";
  EXPECT_EQ(hook.folder().files(), before);
  EXPECT_EQ(read_file(before[0]), content);
  for (const auto& entry : fs::directory_iterator(disk.path()))
    EXPECT_TRUE(entry.path() == before[0] || entry.path().filename() == "filler") << entry.path() << " was left behind";
  EXPECT_NE(failure([&] { save_model(trainer, disk.path() + "/model.safetensors"); }), "");
  EXPECT_FALSE(fs::exists(disk.path() + "/model.safetensors"));

  disk.mend();
  run_to(12);
  EXPECT_FALSE(hook.save(trainer).empty()) << "the one that is due may have to wait for the writer's rest";
  EXPECT_EQ(hook.folder().files().size(), 2u) << "with room again, it saves again";
  Trainer resumed(lenet_job(), {.threads = 1});
  EXPECT_EQ(hook.folder().resume(resumed), hook.folder().files()[0]);
  EXPECT_EQ(resumed.position().step, 12);
  steps(undisturbed, 12);
  EXPECT_EQ(bits_of(resumed), bits_of(undisturbed)) << "a full disk changes no number";
}

TEST(Pretrained, PatternsMatchAsWritten) {
  EXPECT_TRUE(matches_pattern("conv*", "conv1.weight"));
  EXPECT_TRUE(matches_pattern("*.bias", "dense2.bias"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "a.b.b.c"));
  EXPECT_FALSE(matches_pattern("conv", "conv1.weight"));
  EXPECT_FALSE(matches_pattern("*.bias", "dense2.weight"));
  EXPECT_FALSE(matches_pattern("", "x"));
  EXPECT_FALSE(matches_pattern(std::string(40, '*') + "b", std::string(5000, 'a'))) << "and in no time";
}

}  // namespace
}  // namespace perigee
