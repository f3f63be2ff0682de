// A replica's work on its trainer thread: trains orders, stages contributions, applies results, and knows the last result whatever
// local work has been done since. No threads and no queues: TrainerReplica has those.
//
// With a codec a contribution is the change since the last result, result - local parameters, encoded once, when it is staged. Its
// residual is the worker's: it moves on when a result holds the payload and stays when the contribution is given up (DeltaCodec). It is in
// no image: who joins or is started again begins with none. In rounds of each step it is the gradient, or what the optimiser makes of it,
// that is encoded (replica_trainer_steps.cpp).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cluster/codec/parts_codec.h"
#include "cluster/data/example_client.h"
#include "cluster/data/partition_exchange.h"
#include "cluster/exchange/outer_step.h"
#include "cluster/exchange/payload_pool.h"
#include "cluster/policy/policy.h"
#include "cluster/replica/device_rounds.h"
#include "cluster/replica/exchange_block.h"
#include "cluster/replica/repeated_sums.h"
#include "cluster/replica/replica.h"
#include "cluster/replica/replica_codec.h"
#include "cluster/rounds/local/partial_merge.h"
#include "src/run/checkpoint.h"
#include "src/train/trainer.h"

namespace perigee {

// The progress of an order while it is carried out. Called between steps.
class OrderWatch : public GradientSink {
 public:
  virtual bool given_up() = 0;  // may serve other requests first; true: the order is no longer wanted
  virtual void on_step() = 0;
};

class TrainerRecord;  // cluster/ledger/trainer_record.h

struct ReplicaTrainerOptions {
  size_t bucket_bytes = size_t{1} << 20;    // equal on every worker
  SourceOpener* opener = nullptr;           // of what the worker reads itself; see TrainerOptions. Outlives the trainer
  ExampleClient* examples = nullptr;        // of data that the coordinator sends; null: there are none. Outlives the trainer
  PartitionExchange* partitions = nullptr;  // of data that workers hold; null: there are none. Outlives the trainer
  TraceRing* trace = nullptr;               // of the timeline; outlives the trainer
  TrainerRecord* record = nullptr;          // of what the trainer does, for TrainerReplica; outlives it
  int slot = 0;                             // of this worker on its machine
};

class ReplicaTrainer {
 public:
  // Error of whatever kind building a trainer gives. On one GPU the codec is there too, where it has kernels and there is room.
  ReplicaTrainer(const Welcome& welcome, const ReplicaTrainerOptions& options);
  ~ReplicaTrainer();

  Trainer& trainer() { return trainer_; }
  const ExchangeBlock& block() const { return block_; }
  std::vector<FragmentPart> fragments() const { return plan_.parts(trainer_.model().params().width()); }
  std::vector<DataPrint> data_prints();     // opens what is not open yet. Error(data)
  int64_t round() const { return round_; }  // of the result held
  uint64_t hash() const { return hash_; }
  bool coded_on_device() const;  // the codec, or one of them, works on the GPU

  // False: given up; nothing is staged and the local work of this order remains until drop() or load(). `rows`: one for each of
  // partials_of the order's leaves; one for local steps.
  bool train(const TrainOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel, OrderWatch& watch,
             Contribution* contribution);
  // With several passes: what the next one adds up, of the sums of those before it. Over: nothing more is added up. `rows`: as train() had them.
  enum class Part : uint8_t { made, over, given_up };
  Part make_part(const PartOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel, OrderWatch& watch);
  // The number of a payload that is none of the codec; then nothing has changed.
  std::optional<size_t> apply(const ApplyOrder& order, std::byte* row);
  // As the server of a served policy: `reply` is for who has contributed. Without payloads it only tells the parameters.
  std::optional<size_t> serve(const ApplyOrder& order, std::byte* row, SharedBytes* reply, bool* change);
  // False: not parameters and states of this network; then nothing has changed.
  bool take(const TakeOrder& order);
  // The group's mean becomes the local values; nothing when the local work was dropped. As apply().
  std::optional<size_t> apply_inner(const InnerApplyOrder& order, std::byte* row);
  ExchangeLayout inner_layout() const;
  // Null: initial values. False: the image cannot be used and nothing has changed. `row`: where a contribution is staged.
  bool load(int64_t round, const std::vector<std::byte>* image, bool keep_local, std::byte* row);
  void drop();
  void unstage();
  // An overlapped order is in progress: may the result of the contribution before be applied now, and is it waited for?
  bool takes_result() const { return overlapped_ && (order_done_ || steps_made_ >= policy_.late); }
  bool waits_for_result() const { return overlapped_ && staged_ && (order_done_ || (policy_.late > 0 && steps_made_ >= policy_.late)); }
  SharedBytes snapshot(bool with_optimizer);  // null when there is no memory for it
  std::string evaluate(const Evaluate& order, const std::atomic<bool>& cancel, std::atomic<int64_t>* evaluated);

 private:
  struct Values;  // parameters, states, slots, position
  class AtResult;
  struct Leaf {
    int32_t leaf = 0;
    std::byte* to = nullptr;
    std::vector<const std::byte*> adds;
    bool last_of_all = false;
  };

  bool train_gradient(const TrainOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel, OrderWatch& watch,
                      Contribution* contribution);
  bool sum_leaves(const TrainOrder& order, std::byte* beside, const std::atomic<bool>& cancel, OrderWatch& watch,
                  Contribution* contribution);
  void plan_nothing(std::byte* row);
  const Batch& leaf_batch();
  void begin_repeats(const TrainOrder& order);
  void tell_figures(Contribution* contribution);
  Part repeat(const PartOrder& order, std::span<std::byte* const> rows, const std::atomic<bool>& cancel, OrderWatch& watch);
  bool train_steps(const TrainOrder& order, std::byte* row, const std::atomic<bool>& cancel, OrderWatch& watch, Contribution* contribution);
  bool stage(const TrainOrder& order, std::byte* row, Contribution* contribution);
  bool stage_inner(int64_t examples, std::byte* row, Contribution* contribution);
  SharedBytes encode_change(ReplicaCodec& codec, std::byte* row, int64_t round);
  std::optional<size_t> add_inner_payloads(const InnerApplyOrder& order, int64_t examples, std::byte* row);
  void take_change(ReplicaCodec& codec);
  std::optional<size_t> add_payloads(ReplicaCodec& codec, const ApplyOrder& order, bool sums, std::byte* row);
  std::optional<size_t> apply_partial(const ApplyOrder& order, std::byte* row);
  void set_progress(int64_t examples);
  void take_lanes_of_others();
  void count_result(int64_t examples_before);
  OuterRound seen_by_outer(int64_t round);
  void take_mean(const ApplyOrder& order, const std::byte* row);
  bool stage_step(const TrainOrder& order, std::byte* row, Contribution* contribution);
  void take_step(const ApplyOrder& order, std::byte* row);
  double weight_of(int64_t examples) const { return policy_.sums ? static_cast<double>(examples > 0) : static_cast<double>(examples); }
  // The weight of an order's work: the examples themselves where they count alike.
  double weight_of_work(int64_t examples) const { return trainer_.weighted() ? weight_ : static_cast<double>(examples); }
  double all_of(int64_t examples) const { return policy_.sums ? 1 : static_cast<double>(examples); }
  // Where numbers are: on the device if `there`, brought over if need be.
  const float* parameters(bool there);
  float* changed_parameters(bool there);       // the caller changes them
  const float* result_parameters(bool there);  // while there is local work
  std::byte* result_block();                   // the same, of the host
  double change_norm_of_local();
  void keep_room_for_result();
  void plan_leaves(const TrainOrder& order, std::span<std::byte* const> rows);
  void plan_node(int32_t first, int32_t last, size_t depth, std::byte* to, const std::vector<const std::byte*>& adds);
  void read_ahead(const TrainOrder& order);
  const Batch& next_batch();
  void keep_result();  // before local work
  void back_to_result(bool with_slots = true);
  Norms norms_of_change();
  void put_initial_values();
  void new_result(int64_t round);
  void take_outer_step(const ApplyOrder& order, int64_t workers);
  SharedBytes values();
  std::vector<NamedBlock> outer_blocks();
  uint64_t hash_of_result() const;
  double progress() const;

  SourceOpener* opener_;
  uint64_t worker_;
  std::unique_ptr<SourceOpener> remote_;  // of data that the coordinator sends
  Trainer trainer_;
  Policy policy_;
  std::unique_ptr<DeviceRounds> rounds_;               // null: the numbers are here, or on several GPUs
  std::unique_ptr<ReplicaCodec> codec_, inner_codec_;  // null: parameters are added up, or fragments have their own
  std::unique_ptr<ReplicaCodec> step_codec_;           // null: gradients, or updates, are added up
  std::unique_ptr<PartsCodec> parts_codec_;            // likewise, of a linear codec: in parts that are added up
  Storage gradient_;                                   // with it, as the row has no room for one
  std::unique_ptr<RepeatedSums> repeats_;              // null: a round of each step is one sum
  std::vector<WeightedPayload> weighted_;
  FragmentPlan plan_;
  ExchangeBlock block_;
  OuterStep outer_;  // its state is the last result's, whatever local work has been done since
  int64_t round_ = -1;
  uint64_t hash_ = 0;
  std::unique_ptr<PartialMerge> partial_;  // null: a result replaces all local work
  bool overlapped_ = false, order_done_ = false;
  int64_t steps_made_ = 0;  // of the order in progress
  // The last result, when local work has been done since; else the trainer itself holds it.
  std::unique_ptr<Values> result_;
  bool local_work_ = false;
  bool gradient_is_there_ = false;                         // of the order in progress: on the device
  std::weak_ptr<const std::vector<std::byte>> images_[2];  // of the last result while they are being sent: model, checkpoint
  // The contribution that is staged and not merged yet.
  bool staged_ = false, staged_gradient_ = false;
  int64_t staged_examples_ = 0;
  double weight_ = 0, staged_weight_ = 0;  // of the examples trained on since the last result; of those that are staged
  std::vector<uint8_t> lanes_;             // 1: trained in the local work since the last result; empty: rows carry nothing
  int64_t inner_staged_ = 0;               // so often since the last result
  bool inner_pending_ = false;             // the inner codec's payload is in the group's exchange
  PayloadPool inner_payloads_;
  std::vector<size_t> inner_numbers_;               // of the group's payloads, those that are added up
  double parameters_norm_ = -1, merged_norm_ = -1;  // of the result, and of the mean change that made it; -1: not known

  // For repeated sums: the order in progress, the batch of its one leaf, what each sum but the first computes, the figures of the one before.
  TrainOrder repeated_;
  const Batch* batch_ = nullptr;
  Contribution again_;
  Figures known_;

  std::vector<Range> wanted_, listed_;  // listed: with the loader; the first `taken_` are taken
  size_t taken_ = 0;

  std::vector<Leaf> leaves_;  // of the last gradient order, in the order in which they are computed
  std::vector<Partial> partials_;
  std::vector<std::byte*> planned_rows_;
  int32_t planned_first_ = -1, planned_count_ = 0, planned_leaves_ = 0;
  std::vector<Storage> partial_sums_;  // by depth
  std::vector<std::byte> states_before_;
  Batch no_batch_;
};

}  // namespace perigee
