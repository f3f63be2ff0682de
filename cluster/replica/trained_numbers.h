// The numbers of a simulated replica that really trains: a ReplicaTrainer that is taken one step further whenever the simulated clock has
// come to the step's end. Everything is done by one thread at a time and nothing depends on real time, so that a seed gives the same bits.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/replica/lockstep.h"
#include "cluster/replica/replica_trainer.h"
#include "cluster/simulator/replica_numbers.h"
#include "src/tensor/tensor.h"

namespace perigee {

// Opens each part of the data once for all replicas.
class SharedOpener final : public SourceOpener {
 public:
  SourcePtr open(const std::string& part, const Config& description, const std::string& folder) override;

 private:
  std::map<std::string, SourcePtr> sources_;  // by part and description
};

class TrainedNumbers final : public sim::ReplicaNumbers, private OrderWatch {
 public:
  explicit TrainedNumbers(SharedOpener& opener) : opener_(opener) {}
  ~TrainedNumbers() override;

  void open(const Welcome& welcome) override;
  const ExchangeLayout& layout() const override { return trainer_->block().layout(); }
  const std::vector<Bucket>& buckets() const override { return trainer_->block().buckets(); }
  ExchangeLayout inner_layout() const override { return trainer_->inner_layout(); }
  std::span<std::byte> exchange_row(size_t row) override;
  std::span<const FragmentPart> fragments() const override { return fragments_; }
  void begin(const TrainOrder& order) override;
  std::optional<Contribution> step(bool last) override;
  bool make_part(const PartOrder& order) override;
  std::optional<size_t> apply(const ApplyOrder& order) override;
  std::optional<size_t> apply_inner(const InnerApplyOrder& order) override { return trainer_->apply_inner(order, exchange_row(0).data()); }
  std::optional<size_t> serve(const ApplyOrder& order, SharedBytes* reply, bool* change) override {
    return trainer_->serve(order, exchange_row(0).data(), reply, change);
  }
  bool take(const TakeOrder& order) override;
  void load(int64_t round, const SharedBytes& image, bool keep_local) override;
  void unstage() override { trainer_->unstage(); }
  void drop() override;
  SharedBytes snapshot(bool with_optimizer) override { return trainer_->snapshot(with_optimizer); }
  std::string evaluate(const Evaluate& order) override { return trainer_->evaluate(order, never_, nullptr); }
  int64_t round() const override { return trainer_->round(); }
  uint64_t hash() const override { return trainer_->hash(); }

 private:
  bool given_up() override;
  void on_step() override {}
  void on_bucket(size_t) override {}
  void drop_order();

  SharedOpener& opener_;
  std::unique_ptr<ReplicaTrainer> trainer_;
  std::vector<Storage> rows_;
  std::vector<FragmentPart> fragments_;
  const std::atomic<bool> never_ = false;

  // The order under way. It runs in `lockstep_` and stands still in given_up() before each step that is not due yet.
  TrainOrder order_;
  std::vector<std::byte*> order_rows_;
  Contribution contribution_;
  bool trained_ = false, under_way_ = false, due_ = false, give_up_ = false;
  std::byte* staged_row_ = nullptr;
  Lockstep lockstep_;
};

}  // namespace perigee
