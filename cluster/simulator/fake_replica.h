// A trainer of a few numbers whose parameters say which examples they are made of: how often each position was applied, and in which
// epochs. So a ledger can be checked against parameters and not only against itself. Computing takes virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/policy/policy.h"
#include "cluster/replica/replica.h"
#include "cluster/simulator/fake_payloads.h"
#include "cluster/simulator/network/network.h"

namespace perigee::sim {

// The parts of a result. All numbers are small integers: sums are exact in any order. `rounding` stands for the bits that sums of real
// numbers have by the number of workers that made them.
struct Contents {
  std::vector<float> sums;                    // of each position: times applied; and sum of (epoch + 1)
  std::vector<int64_t> maxima;                // the highest (epoch, position) applied, as one number; the highest round
  std::vector<std::vector<float>> fragments;  // of each its own sums: they lag behind, and what a lost worker did of them is lost
  uint64_t rounding = 0;
  explicit Contents(int64_t examples = 0) : sums(static_cast<size_t>(2 * examples)), maxima(2, -1) {}
  void add(const Range& range, int64_t examples, float sign = 1);
  double loss(int64_t examples) const;  // of training, as of a model that learns
  uint64_t hash() const;
  bool operator==(const Contents&) const = default;
};

// With sums that are repeated: how many rows that round adds up (rounds/steps/fake_replica.cpp).
float repeats_of(int64_t round);

struct ReplicaFaults {
  double slow = 1;           // every computation takes so many times longer
  bool stuck = false;        // what is begun never ends
  double outlying = 0;       // share of contributions that change far too much
  double nan = 0;            // share of contributions that are not finite
  bool fails = false;        // the next order ends the trainer
  bool wrong_apply = false;  // the next result comes out wrong, as by a bit flip in memory
  int bad_payloads = 0;      // so many of the next payloads are none
  bool withholds = false;    // no image is made until it is over
};

class FakeReplica final : public Replica {
 public:
  struct Options {
    int64_t examples = 0;  // of an epoch
    uint64_t fingerprint = 1;
    double example_ms = 1;  // compute time
    double apply_ms = 0.2;
    int buckets = 2;
    bool learns = true;
    bool steered = false;  // local steps and learning rates are not only the policy's
    bool poisoned(const Range& range) const {
      return poison.count > 0 && range.epoch == poison.epoch && range.begin < poison.begin + poison.count &&
             poison.begin < range.begin + range.count;
    }
    Range poison;  // examples that no worker can compute
    // The rows of this range are here; false: they have been asked for. Null: always.
    std::function<bool(const Range& range)> rows;
  };
  // `complain` hears of a request that breaks the contract, or of sums that are not what the protocol says.
  FakeReplica(Options options, Network& network, int process, ReplicaFaults& faults, std::function<void(const std::string&)> complain);
  void set_events(ReplicaEvents* events) { events_ = events; }
  void set_watch(std::function<void(int64_t round)> applied) { watch_ = std::move(applied); }  // before the worker hears of it
  // Likewise: what this replica staged for an inner exchange, and what its group's came to.
  using InnerWatch = std::function<void(const InnerApplyOrder& order, const std::vector<float>& staged, const std::vector<float>& sum)>;
  void set_inner_watch(InnerWatch watch) { inner_watch_ = std::move(watch); }

  void open(const Welcome& welcome) override;
  ExchangeLayout layout() const override { return layout_; }
  const std::vector<Bucket>& buckets() const override { return buckets_; }
  ExchangeLayout inner_layout() const override { return inner_layout_; }
  std::span<std::byte> exchange_row(size_t row) override;
  void set_options(const std::string& settings) override { options_set_ = settings; }
  const std::string& options_set() const { return options_set_; }
  void train(const TrainOrder& order) override;
  void make_part(const PartOrder& order) override;
  void apply(const ApplyOrder& order) override;
  void serve(const ApplyOrder& order) override;
  void take(const TakeOrder& order) override;
  void apply_inner(const InnerApplyOrder& order) override;
  void load(int64_t round, SharedBytes image, bool keep_local) override;
  void snapshot(uint64_t request, bool with_optimizer) override;
  void evaluate(const Evaluate& order) override;
  std::span<const FragmentPart> fragments() const override { return parts_; }
  void unstage() override;
  void drop() override;
  int64_t steps() const override { return steps_; }
  int64_t evaluated() const override { return evaluated_; }
  bool waits_for_examples() const override;

  int64_t round() const { return round_; }  // of the result held
  const Contents& contents() const { return contents_; }
  bool holds_result() const { return holds_; }

  static std::vector<std::byte> image_of(int64_t round, const Contents& contents);
  static bool read_image(std::span<const std::byte> bytes, int64_t* round, Contents* contents);

 private:
  struct Training {
    TrainOrder order;
    size_t step = 0;      // ranges done
    uint32_t bucket = 0;  // announced
    uint64_t begun_ns = 0;
    Contribution contribution;
    bool waits = false;          // for the result of the contribution before
    uint64_t lacks_rows_ns = 0;  // since when; 0: it does not
  };
  void later(double ms, std::function<void()> what);
  void stage(size_t row, const Contents& contents, int64_t examples, bool counts);
  Contents blank() const;
  void cut_buckets();
  void stage_local();
  void steps_done();
  int take_inner(const InnerApplyOrder& order);
  SharedBytes encode(FakePayloads& payloads, const Contents& contents, int64_t examples, int64_t round);
  void finish_local();
  void forget_staged();
  void apply_now(const ApplyOrder& order);
  bool waits_for_result(bool done);
  void go_on();
  void set_up_fragments(const Policy& policy);
  SharedBytes encode_fragments_of(int64_t round);
  bool merge_fragments(const ApplyOrder& order, size_t* refused);
  size_t main_sum() const { return parts_.empty() ? 0 : parts_.back().end / sizeof(float); }
  bool merge(const ApplyOrder& order, std::vector<float>* sums, size_t* refused);
  std::optional<size_t> add_merged(const ApplyOrder& order);
  void forget_local();
  double loss_now() const;
  void check_conserved();
  void cut_in_passes();
  void set_up_repeats();
  void repeat(const PartOrder& order);
  void stage_gradient(const TrainOrder& order, float times, Contribution* contribution);
  void progress(uint64_t token);
  bool lacks_rows();
  void evaluate_from(const Evaluate& order, int64_t begin);
  void finish_training();

  Options options_;
  Network& network_;
  int process_;
  ReplicaFaults& faults_;
  std::function<void(const std::string&)> complain_;
  ReplicaEvents* events_ = nullptr;
  std::function<void(int64_t round)> watch_;
  InnerWatch inner_watch_;
  ExchangeLayout layout_, inner_layout_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<float>> rows_;  // each layout_.bytes(), in floats

  std::unique_ptr<FakePayloads> payloads_, inner_payloads_;  // null: the job has no codec
  bool coded_steps_ = false;                                 // it is one of gradients
  bool any_workers_ = false;                                 // a result has the same bits however many workers made it
  Contents inner_staged_;                                    // for an inner exchange
  // In two passes: what the second adds up, held back until the first is here; and the sums that it was made of.
  std::vector<std::byte> held_back_, made_of_;
  TrainOrder repeated_;  // with sums that are repeated: the order in progress

  std::vector<FragmentPart> parts_;  // of the row, before the sums that are of every round
  int64_t late_ = 0;                 // steps of an overlapped order before a result is taken
  std::function<void()> held_;       // a result that came earlier

  Contents contents_, local_, staged_;  // the result held; local work since then, and of it what is staged
  int64_t local_examples_ = 0, staged_examples_ = 0;
  size_t staged_row_ = 0;
  int64_t round_ = -1, steps_ = 0, evaluated_ = 0;
  bool holds_ = false, staged_local_ = false, staged_payload_ = false, local_finite_ = true, local_outlying_ = false;
  std::string options_set_;       // empty: the job's
  size_t most_steps_ = SIZE_MAX;  // of an order, by the policy
  uint64_t free_at_ns_ = 0;       // the trainer does one thing at a time, in order
  uint64_t token_ = 0;            // of the training order under way; a new number when it is given up
  std::unique_ptr<Training> training_;
};

}  // namespace perigee::sim
