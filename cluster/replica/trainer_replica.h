// The real Replica: a trainer thread with a team of its own, between two bounded queues. All of Replica is called on the loop thread;
// answers are given there, from deliver(), which the owner calls after each `wake`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/replica/replica.h"
#include "cluster/replica/replica_trainer.h"
#include "src/core/spsc_queue.h"

namespace perigee {

class TrainerReplica final : public Replica, private OrderWatch {
 public:
  // `wake`: called, mostly on the trainer thread, when there is something to deliver(): it asks the loop to call deliver() (uv_async_send). `events` and what `wake` needs outlive this object.
  TrainerReplica(ReplicaEvents& events, std::function<void()> wake, ReplicaTrainerOptions options = {});
  // Ends what is in progress between two kernel calls and joins the thread. Nothing is delivered afterwards.
  ~TrainerReplica() override;
  void deliver();

  void open(const Welcome& welcome) override;
  ExchangeLayout layout() const override { return layout_; }
  const std::vector<Bucket>& buckets() const override { return buckets_; }
  std::span<const FragmentPart> fragments() const override { return fragments_; }
  ExchangeLayout inner_layout() const override { return inner_layout_; }
  std::span<std::byte> exchange_row(size_t row) override;
  void set_options(const std::string& settings) override;
  void train(const TrainOrder& order) override;
  void make_part(const PartOrder& order) override;
  void apply(const ApplyOrder& order) override;
  void serve(const ApplyOrder& order) override;
  void take(const TakeOrder& order) override;
  void apply_inner(const InnerApplyOrder& order) override;
  void load(int64_t round, SharedBytes image, bool keep_local) override;
  void snapshot(uint64_t request, bool with_optimizer) override;
  void evaluate(const Evaluate& order) override;
  void unstage() override;
  void drop() override;
  int64_t steps() const override { return steps_.load(std::memory_order_relaxed); }
  int64_t evaluated() const override { return evaluated_.load(std::memory_order_relaxed); }
  std::vector<DataPrint> data_prints() const override { return data_prints_; }
  bool waits_for_examples() const override {
    return (options_.examples && options_.examples->starved()) || (options_.partitions && options_.partitions->starved());
  }

 private:
  struct Request {
    enum class Kind : uint8_t {
      open,
      train,
      part,
      apply,
      apply_inner,
      serve,
      take,
      load,
      snapshot,
      evaluate,
      unstage,
      drop
    } kind = Kind::drop;
    uint64_t order = 0;  // train: its number
    Welcome welcome;
    TrainOrder train;
    PartOrder part;
    ApplyOrder apply;
    TakeOrder take;
    InnerApplyOrder inner;
    std::vector<std::byte*> rows;
    int64_t round = 0;
    bool flag = false;  // keep_local, with_optimizer
    SharedBytes image;
    uint64_t request = 0;
    Evaluate evaluate;
  };
  struct Answer {
    enum class Kind : uint8_t {
      opened,
      loaded,
      bucket,
      contribution,
      parts_over,
      applied,
      refused,
      inner_applied,
      served,
      taken,
      snapshot,
      evaluated,
      failed
    } kind = Kind::opened;
    uint64_t order = 0;  // bucket, contribution: of which
    int64_t round = 0;
    uint64_t hash = 0;     // opened: the fingerprint
    uint64_t request = 0;  // bucket, payload: its number
    Contribution contribution;
    SharedBytes image;
    std::string text;
    std::optional<Error> error;
    bool for_all = false;
    bool flag = false;  // served: the reply is a change; taken: it is ok
    int64_t index = 0;  // inner_applied
    int refused = -1;
    ExchangeLayout layout, inner_layout;
    std::vector<Bucket> buckets;
    std::vector<FragmentPart> fragments;
    std::vector<DataPrint> data_prints;
  };
  static constexpr size_t kRequests = 64, kAnswers = 256;

  // Loop thread.
  Request* request(Request::Kind kind);
  void send();
  void give_up_order();
  void deliver(const Answer& answer);

  // Trainer thread.
  void trainer_main();
  void handle(Request& request);
  bool answer_beside_training(Request& request);
  void take_options();
  void carry_out(Request& request);
  Answer* answer(Answer::Kind kind);
  void post();
  void answer_loaded();
  void answer_apply(Request& request);
  bool given_up() override;
  void on_step() override;
  void on_bucket(size_t bucket) override;
  void make_part(Request& request);
  void post_order(Answer::Kind kind, size_t bucket);

  ReplicaEvents& events_;
  const std::function<void()> wake_;
  const ReplicaTrainerOptions options_;

  // Loop thread.
  ExchangeLayout layout_, inner_layout_;
  std::vector<Bucket> buckets_;
  std::vector<FragmentPart> fragments_;
  std::vector<DataPrint> data_prints_;
  std::vector<std::unique_ptr<Storage>> rows_;
  uint64_t last_order_ = 0, live_order_ = 0;  // live: whose answers are still wanted; 0: none
  std::vector<uint64_t> refused_;             // snapshots

  // Trainer thread.
  std::unique_ptr<ReplicaTrainer> trainer_;
  TrainOrder order_;  // in progress
  std::vector<std::byte*> order_rows_;
  uint64_t order_number_ = 0;
  int64_t order_steps_ = 0;  // made of it
  std::byte* staged_row_ = nullptr;
  Contribution contribution_;
  bool opened_ = false, broken_ = false;
  bool popped_ = false;  // the request in hand is off the queue
  uint64_t give_ups_seen_ = 0;

  // Both.
  SpscQueue<Request, kRequests> requests_;
  SpscQueue<Answer, kAnswers> answers_;
  std::atomic<int64_t> steps_{0}, evaluated_{0};
  std::atomic<bool> stop_{false};
  std::mutex options_mutex_;
  std::string set_options_;  // what is to hold from the next order on
  std::atomic<bool> options_told_{false};
  std::atomic<bool> cancel_{false};    // of the order in progress, and of an evaluation at the end
  std::atomic<uint64_t> give_ups_{0};  // drops and loads asked for
  std::thread thread_;
};

}  // namespace perigee
