// Rounds of fragments in one replica: what of the local work is staged, and how a result that is of some fragments only, or comes while local
// work goes on, is merged into it. The result itself is kept by the caller: of due fragments the new one, of the others the old one.
//
// A fragment's weight in the mean are the examples that its worker has trained since the fragment was last merged there, however many rounds
// ago: they travel with the values, in a tail of the row or in the payload. What a worker that is lost has trained since a fragment was last
// due is lost with it, although its examples are counted.
//
// Owned by the trainer thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cluster/codec/delta_codec.h"
#include "cluster/exchange/fragment_payload.h"
#include "cluster/exchange/outer_step.h"
#include "cluster/replica/exchange_block.h"
#include "cluster/rounds/local/fragments.h"

namespace perigee {

class PartialMerge {
 public:
  // `plan` is not empty. All of them outlive this.
  PartialMerge(Trainer& trainer, ExchangeBlock& block, OuterStep& outer, const FragmentPlan& plan, const Policy& policy, uint64_t worker);

  void trained(int64_t examples);  // one local step
  // The local work as the contribution to that round, `global` being the last result's parameters. False when something is not finite or too
  // large for a codec.
  bool stage(int64_t round, const std::byte* global, std::byte* row, Contribution* contribution);
  bool staged() const { return staged_; }
  void unstage();  // the round came to nothing; the work is part of what is staged next
  void drop();     // so is the local work
  void overtaken();

  // Makes the new result of `global` and `states`, which are the last one's, and merges it into the trainer. The number of a payload that is
  // none; then nothing has changed.
  std::optional<size_t> merge(const ApplyOrder& order, OuterRound seen, std::byte* row, std::byte* global, std::span<std::byte> states);

 private:
  struct Part {
    std::unique_ptr<DeltaCodec> codec;  // null: sums
    int64_t weight = 0, staged_weight = 0;
    bool pending = false;  // in the staged payload
    int64_t merged = 0;    // of payloads: examples
    int64_t givers = 0;
  };
  std::optional<size_t> add_payloads(const ApplyOrder& order, std::byte* row);
  bool by_payload(size_t i, int64_t round) const { return parts_[i].codec && plan_.fragments()[i].due(round, false); }
  std::span<float> coded(std::byte* row, const Fragment& f) const;
  void stage_change(const Fragment& f, const std::byte* global, std::byte* row) const;
  int64_t take_mean(size_t i, const ApplyOrder& order, const std::byte* global, std::byte* row, OuterRound* seen);
  void take_result(const Fragment& f, std::byte* global);
  void take_states(const ApplyOrder& order, const std::byte* row, std::span<std::byte> states);
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements) * math_.width; }

  struct Math {
    const BlockMath& of;
    size_t width;
  };
  Trainer& trainer_;
  ExchangeBlock& block_;
  OuterStep& outer_;
  const FragmentPlan& plan_;
  const double keep_;  // share of the local parameters; below 0: all work since
  const bool overlap_;
  Math math_;
  std::vector<Part> parts_;
  int64_t unmerged_ = 0, staged_unmerged_ = 0;  // examples since the last result: the weight of running statistics
  bool staged_ = false;
  Storage next_;                        // the new result, where it is due
  std::vector<std::byte> then_;         // overlap: the parameters as they were staged
  std::vector<std::byte> states_then_;  // and the states
  std::vector<std::byte> states_now_;
  std::vector<FragmentChange> changes_;
};

// The most bytes of a payload; 0: no fragment has a codec. Error(model) for a codec where it cannot be.
size_t payload_bound(const FragmentPlan& plan, Dtype dtype, const std::string& where);

}  // namespace perigee
