// Several trainer replicas in one process, whose exchange is a sum in memory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/ledger/fixed_plan.h"
#include "cluster/replica/trainer_replica.h"
#include "kernels/block_math.h"
#include "src/run/checkpoint.h"

namespace perigee {

// One replica with a loop of its own: the test's thread, which delivers while it waits.
class TestReplica final : public ReplicaEvents {
 public:
  explicit TestReplica(const Welcome& welcome, ReplicaTrainerOptions options = {}) {
    replica = std::make_unique<TrainerReplica>(
        *this,
        [this] {
          const std::lock_guard lock(mutex_);
          woken_ = true;
          signal_.notify_one();
        },
        options);
    replica->open(welcome);
    wait([&] { return opened || failed; });
  }
  ~TestReplica() override { replica.reset(); }

  void wait(const std::function<bool()>& until) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!until()) {
      {
        std::unique_lock lock(mutex_);
        ASSERT_TRUE(signal_.wait_until(lock, deadline, [&] { return woken_; })) << "nothing came from the trainer";
        woken_ = false;
      }
      replica->deliver();
    }
  }

  const Contribution& train(const TrainOrder& order) {
    start(order);
    return finish();
  }
  void start(const TrainOrder& order) {
    contributions = 0;
    buckets.clear();
    replica->train(order);
  }
  const Contribution& finish() {
    wait([&] { return contributions > 0 || failed; });
    return contribution;
  }
  void make_part(const PartOrder& order) {
    const size_t before = buckets.size();
    making_part_ = true;
    replica->make_part(order);
    wait([&] { return buckets.size() > before || failed; });
    making_part_ = false;
  }
  // False: there was nothing more to add up.
  bool repeat(const PartOrder& order) {
    const int before = parts_over;
    const size_t made = buckets.size();
    making_part_ = true;
    replica->make_part(order);
    wait([&] { return buckets.size() > made || parts_over > before || failed; });
    making_part_ = false;
    return parts_over == before;
  }
  uint64_t apply(int64_t round, int64_t examples, int64_t after, bool alone = false) {
    return apply({.round = round, .examples = examples, .examples_after = after, .alone = alone});
  }
  uint64_t apply(const ApplyOrder& order) {
    const int before = applied;
    refused = -1;
    replica->apply(order);
    wait([&] { return applied > before || refused >= 0 || failed; });
    return hash;
  }
  void apply_inner(const InnerApplyOrder& order) {
    const int before = inner_applied;
    replica->apply_inner(order);
    wait([&] { return inner_applied > before || failed; });
  }
  uint64_t load(int64_t at, SharedBytes bytes, bool keep_local = false) {
    const int before = loaded;
    replica->load(at, std::move(bytes), keep_local);
    wait([&] { return loaded > before || failed; });
    return hash;
  }
  SharedBytes snapshot(bool with_optimizer = true) {
    replica->snapshot(++asked, with_optimizer);
    wait([&] { return answered == asked || failed; });
    return image;
  }
  std::string evaluate(const std::string& part, int64_t begin, int64_t end) {
    evaluated.clear();
    replica->evaluate({.request = 1, .part = part, .begin = begin, .end = end});
    wait([&] { return !evaluated.empty() || failed; });
    return evaluated;
  }
  float* row(size_t i = 0) { return reinterpret_cast<float*>(replica->exchange_row(i).data()); }
  ExchangeTail tail(size_t i = 0) { return read_exchange_tail(replica->layout(), replica->exchange_row(i)); }

  void on_opened(uint64_t fingerprint) override { opened = true, data = fingerprint; }
  void on_loaded(int64_t at, uint64_t value) override { ++loaded, round = at, hash = value; }
  void on_bucket(int64_t, uint32_t bucket) override {
    EXPECT_TRUE(contributions == 0 || making_part_);
    buckets.push_back(bucket);
    if (on_bucket_do) on_bucket_do(bucket);
  }
  void on_parts_over(int64_t) override { ++parts_over; }
  void on_contribution(const Contribution& given) override { ++contributions, contribution = given; }
  void on_applied(int64_t at, uint64_t value) override { ++applied, round = at, hash = value; }
  void on_payload_refused(int64_t, size_t payload) override { refused = static_cast<int>(payload); }
  void on_inner_applied(int64_t, int64_t, int payload) override { ++inner_applied, refused = payload; }
  void on_snapshot(uint64_t request, int64_t at, uint64_t value, SharedBytes bytes) override {
    answered = request, image_round = at, image_hash = value, image = std::move(bytes);
  }
  void on_evaluated(uint64_t, std::string state) override { evaluated = std::move(state); }
  void on_failed(const Error& error, bool all) override { failed = true, failure = error.what(), for_all = all; }

  bool opened = false, failed = false, for_all = false;
  std::string failure, evaluated;
  uint64_t data = 0, hash = 0, image_hash = 0;
  int64_t round = -2, image_round = -2;
  int contributions = 0, parts_over = 0, applied = 0, inner_applied = 0, loaded = 0;
  int refused = -1;                  // number of a payload
  uint64_t asked = 0, answered = 0;  // snapshots
  Contribution contribution;
  SharedBytes image;
  std::vector<uint32_t> buckets;
  std::function<void(uint32_t)> on_bucket_do;
  std::unique_ptr<TrainerReplica> replica;

 private:
  std::mutex mutex_;
  std::condition_variable signal_;
  bool woken_ = false, making_part_ = false;
};

using Replicas = std::vector<std::unique_ptr<TestReplica>>;

inline Replicas make_replicas(int count, const Welcome& welcome, ReplicaTrainerOptions options = {}) {
  Replicas nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(std::make_unique<TestReplica>(welcome, options));
  return nodes;
}

// to += from, as an exchange adds: sums, then maxima.
inline void add_row(const ExchangeLayout& layout, std::byte* to, const std::byte* from) {
  block_math(layout.dtype).add(to, from, layout.sums, to);
  auto* maxima = reinterpret_cast<int64_t*>(to + layout.sum_bytes());
  const auto* other = reinterpret_cast<const int64_t*>(from + layout.sum_bytes());
  for (int64_t i = 0; i < layout.maxima; ++i) maxima[i] = std::max(maxima[i], other[i]);
}

// A round of up to three replicas in batches of 16, from a data set of 640 examples.
inline TrainOrder small_order(int64_t round, size_t node, int64_t steps) {
  TrainOrder order{.round = round, .examples_before = 96 * round, .examples_per_step = 48};
  for (int64_t i = 0; i < steps; ++i)
    order.ranges.push_back({static_cast<uint64_t>(round / 5), round % 5 * 128 + static_cast<int64_t>(node) * 32 + i * 16, 16});
  return order;
}

// Whatever is stored, in double.
template <class T = float>
std::vector<double> parameters_of(const Params& params) {
  const std::span<const T> values = params.values<T>();
  return {values.begin(), values.end()};
}

template <class T = float>
std::vector<double> parameters_of(TestReplica& node) {
  return parameters_of<T>(load_model(*node.snapshot(false), "snapshot").model->params());
}

// The largest difference, in terms of the largest value of `a`.
template <class A, class B>
double relative_difference(const std::vector<A>& a, const std::vector<B>& b) {
  double worst = 0, scale = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(a[i])));
  }
  return worst / scale;
}

// Adds up the rows of all nodes in the order of the tree and gives everybody the result.
inline void exchange(Replicas& nodes, int leaves) {
  struct Part {
    Partial where;
    std::vector<std::byte> bytes;
  };
  std::vector<Part> parts;
  for (auto& node : nodes)
    for (size_t i = 0; i < node->contribution.partials.size(); ++i) {
      const std::span<std::byte> row = node->replica->exchange_row(i);
      parts.push_back({node->contribution.partials[i], {row.begin(), row.end()}});
    }
  const ExchangeLayout layout = nodes[0]->replica->layout();
  const std::function<std::vector<std::byte>(int, int)> sum = [&](int first, int last) {
    for (const Part& part : parts)
      if (part.where.first == first && part.where.count == last - first) return part.bytes;
    EXPECT_GT(last - first, 1) << "leaf " << first << " is missing";
    if (last - first <= 1) return std::vector<std::byte>(layout.bytes());
    const int middle = first + (last - first) / 2;
    std::vector<std::byte> left = sum(first, middle);
    add_row(layout, left.data(), sum(middle, last).data());
    return left;
  };
  const std::vector<std::byte> merged = sum(0, leaves);
  for (auto& node : nodes) std::memcpy(node->replica->exchange_row(0).data(), merged.data(), merged.size());
}

}  // namespace perigee
