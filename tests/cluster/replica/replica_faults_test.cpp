// Faults of a replica: numbers that are not finite, data that cannot be read, orders that are given up.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "cluster/data/rooted_opener.h"
#include "src/io/file.h"
#include "tests/cluster/replica/replica_jobs.h"

namespace perigee {
namespace {

// Digits of which one example is not a number, or cannot be read.
class Poisoned final : public SourceOpener, public DataSource {
 public:
  enum class Harm { nan, unreadable, huge };  // huge: every example is
  Poisoned(int64_t bad, Harm harm) : bad_(bad), harm_(harm) {}
  SourcePtr open(const std::string&, const Config& description, const std::string& folder) override {
    inner_ = open_source(description, folder);
    return SourcePtr(SourcePtr(), this);
  }
  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  SourceTraits traits() const override { return {.description = "poisoned"}; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    inner_->read(key, slots);
    if (harm_ == Harm::huge) reinterpret_cast<float*>(slots[0])[5] = 3e38f;
    if (key.index != bad_) return;
    if (harm_ == Harm::unreadable) throw Error(ErrorKind::data, {.where = "record 77", .what = "is damaged"});
    if (harm_ == Harm::nan) reinterpret_cast<float*>(slots[0])[5] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  SourcePtr inner_;
  int64_t bad_;
  Harm harm_;
};

constexpr int64_t kBad = 77;

// Where the bad example is in the first epoch.
int64_t position_of_bad() {
  for (int64_t p = 0; p < 640; ++p)
    if (shuffled_index(5, 0, p, 640) == kBad) return p;
  return -1;
}

TEST(NotFinite, AGradientIsLeftOutAndNamed) {
  for (const size_t bucket_bytes : {size_t{1} << 20, size_t{20'000}}) {
    Poisoned poisoned(kBad, Poisoned::Harm::nan);
    // No rectifiers: they take NaN for 0.
    const std::string layers =
        R"([{"type": "dense", "out": 64, "activation": "tanh"}, {"type": "dense", "out": 90, "activation": "tanh"}, {"type": "dense", "out": 10}])";
    TestReplica replica(welcome_to(layers, kAdam, R"({"type": "allreduce", "shards": 2})"), {bucket_bytes, &poisoned});
    ASSERT_FALSE(replica.failed) << replica.failure;
    const int64_t bad = position_of_bad();
    const SharedBytes before = replica.snapshot();
    const int64_t from = bad - bad % 32, good = from < 320 ? 400 : 100;
    replica.train({.gradient = true, .ranges = {{0, good, 32}, {0, from, 32}}, .leaves = 2});
    EXPECT_FALSE(replica.contribution.finite);
    EXPECT_EQ(replica.contribution.examples, 0);
    EXPECT_EQ(replica.contribution.ranges.size(), 2u);
    EXPECT_LT(replica.buckets.size(), replica.replica->buckets().size()) << "the last bucket must not go out";
    EXPECT_EQ(replica.tail().examples, 0);
    for (int64_t i = 0; i < replica.replica->layout().sums; ++i) ASSERT_EQ(replica.row()[i], 0);
    replica.replica->drop();
    EXPECT_EQ(*replica.snapshot(), *before);
    replica.train({.gradient = true, .ranges = {{0, good, 32}, {0, good + 32, 32}}, .leaves = 2});
    EXPECT_TRUE(replica.contribution.finite);
  }
}

// Each example's loss and gradient are finite, their sum is not.
TEST(NotFinite, AGradientMayOverflowWhereTheLossDoesNot) {
  Poisoned poisoned(-1, Poisoned::Harm::huge);
  TestReplica replica(welcome_to(R"([{"type": "dense", "out": 10}])", kAdam, R"("allreduce")"), {size_t{1} << 20, &poisoned});
  replica.train({.gradient = true, .ranges = {{0, 0, 32}}});
  EXPECT_FALSE(replica.contribution.finite);
  EXPECT_TRUE(replica.buckets.empty());
  EXPECT_TRUE(std::isfinite(replica.contribution.figures.loss_sum)) << "the test is of something else";
}

TEST(NotFinite, ALocalStepHandsInWhatWasGoodBefore) {
  Poisoned poisoned(kBad, Poisoned::Harm::nan);
  TestReplica replica(welcome_to(kTiny, R"("adam")", R"("periodic")"), {size_t{1} << 20, &poisoned});
  const int64_t bad = position_of_bad(), from = bad - bad % 32;
  const Range poison{0, from, 32}, first{0, (from + 64) % 640, 32}, second{0, (from + 128) % 640, 32};
  replica.train(local_order(0, {first, second, poison, first}));
  EXPECT_TRUE(replica.contribution.finite);
  EXPECT_EQ(replica.contribution.ranges, (std::vector<Range>{first, second}));
  replica.apply(0, 64, 64, true);
  const uint64_t hash = replica.hash;
  replica.train(local_order(1, {poison, first}, 64));
  EXPECT_FALSE(replica.contribution.finite);
  EXPECT_EQ(replica.contribution.ranges, (std::vector<Range>{poison}));
  EXPECT_EQ(replica.contribution.examples, 0);
  EXPECT_EQ(replica.apply(1, 0, 64), hash) << "no contribution: the parameters stay";
}

TEST(Failure, UnreadableDataEndTheReplicaAndSayWhere) {
  Poisoned poisoned(kBad, Poisoned::Harm::unreadable);
  Welcome welcome = welcome_to(kTiny, R"("adam")", R"("periodic")");
  TestReplica replica(welcome, {size_t{1} << 20, &poisoned});
  replica.train(local_order(0, {{0, 0, 320}, {0, 320, 320}}));
  EXPECT_TRUE(replica.failed);
  EXPECT_FALSE(replica.for_all);
  EXPECT_NE(replica.failure.find("record 77"), std::string::npos) << replica.failure;
}

TEST(Failure, AJobThatCannotWorkFailsForAll) {
  TestReplica replica(welcome_to(R"([{"type": "dense", "out": 7}])", R"({"type": "adam", "lrr": 1})", R"("allreduce")"));
  EXPECT_TRUE(replica.failed);
  EXPECT_TRUE(replica.for_all);
}

TEST(Pretrained, IsReadOnlyWhereTheWorkerMayRead) {
  namespace fs = std::filesystem;
  const fs::path base = fs::canonical(fs::temp_directory_path()) / ("pretrained." + std::to_string(getpid()));
  fs::create_directories(base / "root");
  fs::create_directories(base / "outside");
  Welcome other = welcome_to(kTiny, R"("adam")", R"("periodic")");
  other.job.replace(other.job.find(R"("seed": 5)"), 9, R"("seed": 6)");
  const SharedBytes model = TestReplica(other).snapshot();
  for (const char* folder : {"root", "outside"}) write_file((base / folder / "model.safetensors").string(), *model);
  fs::create_symlink(base / "outside" / "model.safetensors", base / "root" / "link.safetensors");

  RootedOpener opener((base / "root").string());
  const auto start_from = [&](const std::string& path) {
    return welcome_to(kTiny, R"("adam")", R"("periodic")", R"(, "pretrained": {"model": ")" + path + R"("})");
  };
  TestReplica inside(start_from("model.safetensors"), {.opener = &opener});
  EXPECT_FALSE(inside.failed) << inside.failure;
  const LoadedModel loaded = load_model(*inside.snapshot(), "its parameters"), expected = load_model(*model, "the model");
  const Params &got = loaded.model->params(), &wanted = expected.model->params();
  ASSERT_EQ(got.block_bytes(), wanted.block_bytes());
  EXPECT_EQ(std::memcmp(got.block(), wanted.block(), got.block_bytes()), 0);
  for (const std::string& path :
       {(base / "outside" / "model.safetensors").string(), std::string("../outside/model.safetensors"), std::string("link.safetensors")}) {
    TestReplica outside(start_from(path), {.opener = &opener});
    EXPECT_TRUE(outside.failed) << path;
    EXPECT_NE(outside.failure.find("leads out of the folder"), std::string::npos) << path << ": " << outside.failure;
  }
  fs::remove_all(base);
}

TEST(Drop, GivesUpAnOrderAndWhatItReported) {
  TestReplica replica(welcome_to(kLenet, kAdam, R"({"type": "periodic", "every": 5})"));
  const SharedBytes before = replica.snapshot();
  for (int i = 0; i < 20; ++i) {
    replica.start(local_order(0, std::vector<Range>(i % 2 ? 1 : 5000, Range{0, 0, 32})));
    if (i % 3 == 0) std::this_thread::yield();
    if (i % 4 == 1) replica.replica->snapshot(0, false);  // in between
    replica.replica->drop();
    EXPECT_EQ(*replica.snapshot(), *before);
    EXPECT_EQ(replica.contributions, 0);
  }
  EXPECT_EQ(replica.train(local_order(0, {{0, 0, 32}})).steps, 1);
  replica.start(local_order(0, std::vector<Range>(5000, Range{0, 0, 32})));  // and the destructor ends this one
}

TEST(Drop, LoadEndsAnOrder) {
  TestReplica replica(welcome_to(kLenet, kAdam, R"({"type": "allreduce", "shards": 2})"));
  const SharedBytes image = replica.snapshot();
  replica.start({.gradient = true, .ranges = {{0, 0, 320}, {0, 320, 320}}, .leaves = 2});
  replica.load(3, image);
  EXPECT_EQ(replica.round, 3);
  EXPECT_EQ(replica.contributions, 0);
  EXPECT_EQ(replica.train({.gradient = true, .ranges = {{0, 0, 32}, {0, 32, 32}}, .leaves = 2}).examples, 64);
}

// Digits that are slow enough for a thread of their own, and that tell what was read.
class Watched final : public SourceOpener, public DataSource {
 public:
  SourcePtr open(const std::string&, const Config& description, const std::string& folder) override {
    inner_ = open_source(description, folder);
    return SourcePtr(SourcePtr(), this);
  }
  int64_t size() const override { return inner_->size(); }
  const std::vector<Field>& fields() const override { return inner_->fields(); }
  SourceTraits traits() const override { return {.description = "watched"}; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    inner_->read(key, slots);
    ++reads[static_cast<size_t>(key.index)];
  }
  int reads_at(int64_t position) const { return reads[static_cast<size_t>(shuffled_index(5, 0, position, 640))]; }

 private:
  SourcePtr inner_;
  mutable std::array<std::atomic<int>, 640> reads{};
};

TEST(Data, OfTheNextOrderAreReadAheadAndOnce) {
  for (const bool gradient : {true, false}) {
    Watched watched;
    TestReplica replica(welcome_to(kTiny, R"("adam")", R"({"type": "allreduce", "shards": 2})"), {size_t{1} << 20, &watched});
    const int before = watched.reads_at(100), before_both = watched.reads_at(200);  // by the fingerprint
    TrainOrder order{.round = 0, .gradient = gradient, .ranges = {{0, 0, 32}, {0, 32, 32}}, .next = {{0, 96, 32}, {0, 0, 0}}, .leaves = 2};
    EXPECT_EQ(replica.train(order).examples, 64);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (watched.reads_at(127) == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(watched.reads_at(100), before + 1);
    order = {.round = 1, .gradient = gradient, .ranges = {{0, 96, 32}, {0, 0, 0}}, .next = {{0, 192, 32}}, .leaves = 2};
    EXPECT_EQ(replica.train(order).examples, 32);
    EXPECT_EQ(watched.reads_at(100), before + 1) << "read once";
    // Something else comes than was foreseen.
    order = {.round = 2, .gradient = gradient, .ranges = {{0, 300, 32}, {0, 332, 32}}, .leaves = 2};
    EXPECT_EQ(replica.train(order).examples, 64);
    EXPECT_LE(watched.reads_at(200), before_both + 1);
    EXPECT_GE(watched.reads_at(310), 1);
  }
}

TEST(Data, AFingerprintTellsDataSetsApart) {
  const auto fingerprint_of = [](const std::string& train, const std::string& more = "") {
    return TestReplica(welcome_to(kTiny, R"("adam")", R"("allreduce")", more, train)).data;
  };
  const uint64_t one = fingerprint_of(R"({"type": "digits", "endless": false, "size": 640})");
  EXPECT_EQ(one, fingerprint_of(R"({"type": "digits", "endless": false, "size": 640})"));
  EXPECT_NE(one, fingerprint_of(R"({"type": "digits", "endless": false, "size": 641})"));
  EXPECT_NE(one,
            fingerprint_of(R"({"type": "take", "count": 640, "from": 1, "source": {"type": "digits", "endless": false, "size": 641}})"));
}

}  // namespace
}  // namespace perigee
