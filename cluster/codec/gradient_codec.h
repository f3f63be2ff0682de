// A worker's codec in rounds of each step: of gradients, or of what its optimiser makes of them. What it encodes is what trains, tensor
// after tensor without the gaps of the parameter block, so that a payload's length follows from the number of parameters and nothing is
// made of a gap. Like DeltaCodec, its memory moves on only when a result holds the payload.
// Owned by the trainer thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cluster/codec/delta_codec.h"
#include "src/optim/param_window.h"

namespace perigee {

int64_t trainable_elements(std::span<const ParamWindow> windows);

class GradientCodec {
 public:
  // `stream`: the worker, whose draws are its own.
  GradientCodec(std::unique_ptr<Codec> codec, std::span<const ParamWindow> windows, int64_t block_elements, uint64_t seed, uint64_t stream);

  int64_t elements() const { return static_cast<int64_t>(packed_.size()); }  // that are sent
  size_t bound() const { return delta_.bound(); }
  double residual_square() const;  // sum of the squares of what no result holds yet; -1 without feedback

  // A payload of `block`, laid out like the parameters; pending from now on. Null: something in it cannot be encoded.
  SharedBytes encode(const float* block, int64_t round, const StepProgress& when, int workers);
  void settle(bool counted) { delta_.settle(counted); }
  void drop() { delta_.drop(); }
  void overtaken() { delta_.overtaken(); }

  // The sum of weight * payload; `block` receives it, with zeros wherever nothing trains.
  void begin_sum();
  bool add(std::span<const std::byte> payload, float weight) { return delta_.add(payload, weight, packed_); }  // false: it is none
  void end_sum(float* block) const;

 private:
  struct Window {
    int64_t offset = 0, elements = 0;
  };

  std::vector<Window> windows_;  // that train
  int64_t block_elements_;
  DeltaCodec delta_;
  std::vector<float> packed_;  // what is encoded, or what is summed
};

}  // namespace perigee
