// Workers that hold partitions of the data and read each other's (data.at = "partitions"): what is read is right whatever dies, and the
// coordinator's list of holders.
#include "cluster/data/partition_exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "cluster/data/remote_source.h"
#include "cluster/membership/partition_desk.h"
#include "cluster/simulator/network/network.h"
#include "src/data/records/partition.h"

namespace perigee {
namespace {

constexpr uint64_t kPartitionJob = 0xda7a;
constexpr int kHolders = 3, kPartitionRows = 40;
constexpr double kFasterThanReal = 50;  // simulated time, so that the threads which read keep up with it

Json partition_rows(int number) {
  Json x = Json::array();
  for (int row = 0; row < kPartitionRows; ++row) x.push(Json(Json::Array{Json(number), Json(row), Json(number * 1000 + row)}));
  return Json(Json::Object{{"type", "arrays"}, {"x", std::move(x)}});
}

SourcePtr opened(const Json& description) { return open_source(Config(description, "test"), "."); }
std::string name_of_partition(int number) { return "train/" + std::to_string(number); }

Json job_of_partitions() {
  Json sources = Json::array();
  for (int i = 0; i < kHolders; ++i) sources.push(describe_partition(name_of_partition(i), *opened(partition_rows(i))));
  return Json(Json::Object{{"type", "concat"}, {"sources", std::move(sources)}});
}

// Holders on simulated hosts; the desk stands for the coordinator. Node 0 reads and is not struck.
class PartitionWorld {
 public:
  // `only_resets`: links break and nothing else happens; no reader may need its patience with silence.
  explicit PartitionWorld(uint64_t seed, bool only_resets = false)
      : only_resets_(only_resets), network_(seed), rng_(seed), job_(job_of_partitions()) {
    launcher_.open("train", Config(job_, "test"), ".");
    desk_ = std::make_unique<PartitionDesk>(launcher_.partitions());
    nodes_.resize(kHolders);
    for (int i = 0; i < kHolders; ++i) boot(i);
  }
  ~PartitionWorld() {
    for (auto& each : all_) each->stop();
    run_posted();
  }

  void boot(int number) {
    Node& node = nodes_[static_cast<size_t>(number)];
    if (node.process < 0 || rng_.chance(0.5)) {  // else it comes again where it was
      node.address = "host" + std::to_string(number) + ":" + std::to_string(++ports_);
      node.process = network_.add_process(number, node.address);
    }
    all_.push_back(std::make_unique<PartitionExchange>(
        PartitionExchange::Held{{name_of_partition(number), opened(partition_rows(number))}}, network_.clock(node.process),
        network_.transport(node.process), [this](std::function<void()> work) { post(std::move(work)); },
        PartitionExchangeOptions{.silent_ms = only_resets_ ? 1e9 : 10'000, .threads = 1}));
    node.exchange = all_.back().get();
    network_.boot(node.process, node.exchange);
    node.exchange->on_welcome({.sources = launcher_.manifest()}, kPartitionJob);
    const Join join{.serves = node.address,
                    .held = {{name_of_partition(number), partition_hash(*opened(partition_rows(number))), kPartitionRows}}};
    ASSERT_FALSE(desk_->why_refused(join));
    const Holders moved = desk_->take(join);
    tell(node, desk_->all());
    for (Node& other : nodes_)
      if (&other != &node && other.process >= 0) tell(other, moved);
  }
  void strike() {
    const int victim = static_cast<int>(rng_.integer(1, kHolders - 1));
    if (only_resets_) return network_.reset_connections(0, victim);
    Node& node = nodes_[static_cast<size_t>(victim)];
    if (!network_.alive(node.process)) return boot(victim);
    if (network_.paused(node.process)) return network_.resume(node.process);
    switch (rng_.integer(0, 3)) {
      case 0: return network_.kill(node.process, false);
      case 1: return network_.kill(node.process, true);  // without a word
      case 2: return network_.pause(node.process);
      default: network_.mute_connections(0, victim);
    }
  }
  void calm_down() {
    for (int i = 1; i < kHolders; ++i) {
      if (network_.alive(nodes_[static_cast<size_t>(i)].process) && network_.paused(nodes_[static_cast<size_t>(i)].process))
        network_.resume(nodes_[static_cast<size_t>(i)].process);
      if (!network_.alive(nodes_[static_cast<size_t>(i)].process)) boot(i);
    }
  }
  // Until `over`, with a strike now and then for a while.
  bool run(const std::atomic<bool>& over) {
    const auto begun = std::chrono::steady_clock::now();
    uint64_t strike_ns = 0;
    for (int strikes = 12; !over;) {
      run_posted();
      const double real_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
      if (real_ms > 30'000) return false;
      if (static_cast<double>(network_.now_ns()) * 1e-6 > real_ms * kFasterThanReal) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      network_.step();
      if (network_.now_ns() < strike_ns || strikes < 0) continue;
      strike_ns = network_.now_ns() + static_cast<uint64_t>(rng_.between(10, 1500) * sim::kMs);
      if (strikes-- > 0) strike();
      else calm_down();
    }
    return true;
  }
  SourcePtr reader() {
    opener_ = std::make_unique<RemoteOpener>(launcher_.manifest(), client_, nodes_[0].exchange);
    return opener_->open("train", Config(job_, "test"), "/nowhere");
  }
  PartitionExchange& exchange(int number) { return *nodes_[static_cast<size_t>(number)].exchange; }

 private:
  struct Node {
    int process = -1;
    std::string address;
    PartitionExchange* exchange = nullptr;
  };
  void tell(Node& node, Holders holders) {
    network_.post(node.process, 100'000, [exchange = node.exchange, holders = std::move(holders)] { exchange->on_holders(holders); });
  }
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  void run_posted() {
    std::vector<std::function<void()>> now;
    {
      const std::lock_guard lock(mutex_);
      now.swap(posted_);
    }
    for (const auto& work : now) work();
  }

  const bool only_resets_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  sim::Network network_;
  sim::SeededRng rng_;
  const Json job_;
  ServedData launcher_;
  std::unique_ptr<PartitionDesk> desk_;
  std::vector<Node> nodes_;
  int ports_ = 0;
  ExampleClient client_{[] {}};
  std::vector<std::unique_ptr<PartitionExchange>> all_;  // the dead ones, too: their threads may still read
  std::unique_ptr<RemoteOpener> opener_;
};

void read_while_struck(bool only_resets, uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PartitionWorld world(seed, only_resets);
    const SourcePtr source = world.reader();
    ASSERT_EQ(source->size(), kHolders * kPartitionRows);
    std::atomic<bool> over = false;
    std::atomic<int> wrong = 0;
    std::thread reader([&] {
      sim::SeededRng order(seed * 77);
      std::array<float, 3> row{};
      std::byte* slots[] = {reinterpret_cast<std::byte*>(row.data())};
      try {
        for (int pass = 0; pass < 6; ++pass) {
          std::vector<ReadKey> keys;
          for (int i = 0; i < 40; ++i)
            keys.push_back({.index = order.integer(0, source->size() - 1), .epoch = static_cast<uint64_t>(pass)});
          source->expect(keys);
          for (const ReadKey& key : keys) {
            source->read(key, slots);
            const auto number = static_cast<float>(key.index / kPartitionRows), at = static_cast<float>(key.index % kPartitionRows);
            if (row != std::array<float, 3>{number, at, number * 1000 + at}) ++wrong;
            std::this_thread::sleep_for(std::chrono::microseconds(400));  // so that strikes fall in between
          }
        }
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
      over = true;
    });
    const bool done = world.run(over);
    if (!done) world.exchange(0).stop();
    reader.join();
    ASSERT_TRUE(done) << "the reader stands still";
    ASSERT_EQ(wrong, 0);
  }
}

TEST(PartitionExchange, ReadsEveryRowRightWhateverDies) { read_while_struck(false, 12); }

// Reads that a lost connection has not answered are asked again on the next one, without a wait for silence.
TEST(PartitionExchange, ReadsOnWhenConnectionsBreak) { read_while_struck(true, 4); }

TEST(PartitionExchange, ReadsItsOwnRowsWhereTheyLie) {
  PartitionWorld world(3);
  EXPECT_NE(world.exchange(1).held("train/1"), nullptr);
  EXPECT_EQ(world.exchange(1).held("train/0"), nullptr);
  const SourcePtr source = world.reader();
  std::array<float, 3> row{};
  std::byte* slots[] = {reinterpret_cast<std::byte*>(row.data())};
  source->read({.index = 7}, slots);  // of node 0, whose network stands still
  EXPECT_EQ(row[2], 7);
}

TEST(PartitionExchange, AReaderOfAnAbsentPartitionFailsInTheEnd) {
  sim::Network network(1);
  const int process = network.add_process(0, "host0:1");
  ServedData launcher;
  const Json job = job_of_partitions();
  launcher.open("train", Config(job, "test"), ".");
  PartitionExchange exchange({}, network.clock(process), network.transport(process), [](const std::function<void()>&) {},
                             {.deadline_ms = 50});
  exchange.on_welcome({.sources = launcher.manifest()}, kPartitionJob);
  ExampleClient client([] {});
  RemoteOpener opener(launcher.manifest(), client, &exchange);
  const SourcePtr source = opener.open("train", Config(job, "test"), ".");
  std::array<float, 3> row{};
  std::byte* slots[] = {reinterpret_cast<std::byte*>(row.data())};
  try {
    source->read({.index = 0}, slots);
    FAIL() << "read from nowhere";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no worker sends the examples of a partition"), std::string::npos) << text;
    EXPECT_NE(text.find("`perigee status` names the partitions that no worker holds"), std::string::npos) << text;
  }
  RemoteOpener alone(launcher.manifest(), client);
  try {
    alone.open("train", Config(job, "test"), ".");
    FAIL() << "opened without a way to ask";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("workers hold this part of the data, and this process cannot ask them"), std::string::npos);
  }
}

TEST(PartitionDesk, KnowsTheJobsRowsAndTheNewestPlace) {
  PartitionDesk desk({{"train/0", "aa", 4}, {"train/1", "bb", 5}});
  EXPECT_EQ(desk.absent(), (std::vector<std::string>{"train/0", "train/1"}));
  const auto join = [](const HeldPartition& held, const std::string& serves) { return Join{.serves = serves, .held = {held}}; };
  EXPECT_FALSE(desk.why_refused(Join{}));
  const auto other = desk.why_refused(join({"train/1", "cc", 5}, "a:1"));
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->retry);
  EXPECT_EQ(other->what, "the partition 'train/1' has other rows than when the run began");
  EXPECT_EQ(other->got, "5 rows with hash cc");
  EXPECT_NE(other->hint.find("sortWithinPartitions"), std::string::npos);
  EXPECT_NE(desk.why_refused(join({"train/1", "bb", 6}, "a:1"))->what.find("other rows"), std::string::npos);
  EXPECT_NE(desk.why_refused(join({"train/2", "bb", 5}, "a:1"))->what.find("which this run's data do not have"), std::string::npos);
  EXPECT_EQ(desk.why_refused(join({"train/1", "bb", 5}, ""))->what, "the worker holds partitions and does not say where");
  EXPECT_FALSE(desk.why_refused(join({"train/1", "bb", 5}, "a:1")));
  EXPECT_EQ(desk.take(join({"train/1", "bb", 5}, "a:1")).places.size(), 1u);
  EXPECT_EQ(desk.take(join({"train/1", "bb", 5}, "a:1")).places.size(), 0u) << "nothing new";
  EXPECT_EQ(desk.take(join({"train/1", "bb", 5}, "b:1")).places[0].address, "b:1");
  ASSERT_EQ(desk.all().places.size(), 1u);
  EXPECT_EQ(desk.all().places[0].address, "b:1") << "the newest holder";
  EXPECT_EQ(desk.absent(), std::vector<std::string>{"train/0"});
}

}  // namespace
}  // namespace perigee
