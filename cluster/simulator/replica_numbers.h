// A simulated replica's computation while it takes the time of a real one (TimedReplica): nothing, where only bytes and times matter, or
// the numbers of training. Called in the order in which a trainer would do these things; a call takes no time on the simulated clock.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/replica/replica.h"
#include "cluster/simulator/blank_memory.h"

namespace perigee::sim {

class ReplicaNumbers {
 public:
  virtual ~ReplicaNumbers() = default;
  virtual void open(const Welcome& welcome) = 0;
  virtual const ExchangeLayout& layout() const = 0;
  virtual const std::vector<Bucket>& buckets() const = 0;
  virtual ExchangeLayout inner_layout() const = 0;
  virtual std::span<std::byte> exchange_row(size_t row) = 0;
  virtual std::span<const FragmentPart> fragments() const { return {}; }

  virtual void begin(const TrainOrder& order) = 0;
  // One local step, or the whole of a gradient order, and its contribution once the order is complete: after `last`, after the last of
  // its ranges, or earlier when numbers are not finite. Of an overlapped order that waits for a result it may come with one step more.
  virtual std::optional<Contribution> step(bool last) = 0;
  // The rest is as in Replica and ReplicaTrainer.
  virtual bool make_part(const PartOrder& order) = 0;  // false: nothing more is to be added up
  virtual std::optional<size_t> apply(const ApplyOrder& order) = 0;
  virtual std::optional<size_t> apply_inner(const InnerApplyOrder& order) = 0;
  virtual std::optional<size_t> serve(const ApplyOrder& order, SharedBytes* reply, bool* change) = 0;
  virtual bool take(const TakeOrder& order) = 0;
  virtual void load(int64_t round, const SharedBytes& image, bool keep_local) = 0;
  virtual void unstage() {}
  virtual void drop() = 0;
  virtual SharedBytes snapshot(bool with_optimizer) = 0;
  virtual std::string evaluate(const Evaluate& order) = 0;
  virtual int64_t round() const = 0;
  virtual uint64_t hash() const = 0;
};

// Shared by the replicas of a forecast. The content of their rows is never read, so all share one set.
struct BlankModel {
  ExchangeLayout layout;
  std::vector<Bucket> buckets;
  SharedBytes image;
  SharedBytes payload;          // with a codec: of the length that is to be expected
  ExchangeLayout inner_layout;  // of exchanges inside groups, and
  SharedBytes inner_payload;    // likewise
  std::vector<FragmentPart> fragments;
  std::vector<size_t> fragment_payloads;  // of each fragment with a codec, expected bytes; 0: it has none
  std::vector<std::unique_ptr<BlankMemory>> rows;
  bool elastic = false;  // a server's answers: a worker that contributed its change, all others
  SharedBytes change, values;
};

// Nothing: contributions have their examples, results a hash that says which round they are of.
class BlankNumbers final : public ReplicaNumbers {
 public:
  explicit BlankNumbers(BlankModel& model) : model_(model) {}
  void open(const Welcome&) override {}
  const ExchangeLayout& layout() const override { return model_.layout; }
  const std::vector<Bucket>& buckets() const override { return model_.buckets; }
  ExchangeLayout inner_layout() const override { return model_.inner_layout; }
  std::span<std::byte> exchange_row(size_t row) override;
  std::span<const FragmentPart> fragments() const override { return model_.fragments; }
  void begin(const TrainOrder& order) override;
  std::optional<Contribution> step(bool last) override;
  // Sums that are repeated are taken to be one in a round, which most line searches come to.
  bool make_part(const PartOrder&) override { return !model_.layout.repeated; }
  std::optional<size_t> apply(const ApplyOrder& order) override;
  std::optional<size_t> apply_inner(const InnerApplyOrder&) override { return std::nullopt; }
  std::optional<size_t> serve(const ApplyOrder& order, SharedBytes* reply, bool* change) override;
  bool take(const TakeOrder& order) override;
  void load(int64_t round, const SharedBytes& image, bool keep_local) override;
  void drop() override {}
  SharedBytes snapshot(bool) override { return model_.image; }
  std::string evaluate(const Evaluate&) override { return "{}"; }
  int64_t round() const override { return round_; }
  uint64_t hash() const override;

 private:
  void count(const Range& range);
  SharedBytes fragments_payload() const;

  BlankModel& model_;
  TrainOrder order_;
  Contribution contribution_;
  size_t done_ = 0;  // of the order's ranges
  int64_t round_ = -1;
};

// One for each life of each node.
using MakeNumbers = std::function<std::unique_ptr<ReplicaNumbers>()>;

}  // namespace perigee::sim
