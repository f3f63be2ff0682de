// A worker's linear codec in rounds of each step: what it makes of a gradient can be added up, in as many sums over the workers as the
// codec has passes, so that there are no payloads and the bytes do not grow with the workers. PowerSGD takes a product P = M Q of each
// matrix first, then, of the mean P made orthogonal, Q = M^T P; what is no matrix, or would not save tenfold, goes dense with the last
// sums. Residuals are the worker's; Q is the same in all workers: they restart together, at the first round of a membership.
// Owned by the trainer thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cluster/codec/codec.h"
#include "cluster/codec/codec_memory.h"
#include "src/optim/param_window.h"

namespace perigee {

class PartsCodec {
 public:
  PartsCodec(std::unique_ptr<Codec> codec, std::span<const ParamWindow> windows, int64_t block_elements, uint64_t seed);

  // Elements of the exchange's row that each pass adds up, one after another from its beginning.
  const std::vector<int64_t>& passes() const { return passes_; }
  double residual_square() const;  // as that of GradientCodec

  void restart();  // with the state that all begin with
  // The first pass of a gradient, laid out like the parameters, times `weight` into the row. False: something cannot be encoded.
  bool begin(const float* gradient, int64_t round, double weight, float* row);
  // The next pass, of the sums before it in the row; `all` is the sum of all weights.
  void next(int pass, double all, float* row);
  // All sums are in the row: their mean into `gradient`, with zeros wherever nothing trains.
  void end(int64_t round, double all, bool counted, const float* row, float* gradient);
  void drop() { memory_.drop(); }
  void overtaken() { memory_.overtaken(); }

 private:
  struct Segment {
    CodecSegment where;              // in what trains, tensor after tensor
    size_t residual = 0, state = 0;  // where its own begin
    size_t part = 0;                 // in parts_
    bool dense = false;
  };
  struct Window {
    int64_t offset = 0, elements = 0;
  };
  void add_segment(const CodecSegment& where, bool dense);
  EncodeCall call_of(const Segment& segment);
  std::span<float> parts_of(const Segment& segment);

  std::unique_ptr<Codec> codec_;
  std::vector<Window> windows_;  // that train
  int64_t block_elements_;
  uint64_t seed_, round_ = 0;
  double weight_ = 0;  // of the contribution
  std::vector<Segment> segments_;
  std::vector<int64_t> passes_;
  CodecMemory memory_;
  std::vector<float> packed_, parts_;
  std::vector<std::byte> scratch_;
};

}  // namespace perigee
