// A codec with a worker's state: the memory that it keeps between contributions (residual and state; codec_memory.h), and that of payloads.
// Owned by the trainer thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cluster/codec/codec.h"
#include "cluster/codec/codec_memory.h"
#include "cluster/exchange/payload_pool.h"
#include "cluster/replica/replica.h"
#include "src/optim/param_window.h"

namespace perigee {

// CodecSegment's tensors of a whole parameter block.
std::vector<CodecSegment> codec_tensors(std::span<const ParamWindow> windows);

class DeltaCodec {
 public:
  // `stream`: the worker, whose draws are its own.
  DeltaCodec(std::unique_ptr<Codec> codec, const CodecSegment& segment, uint64_t seed, uint64_t stream);
  DeltaCodec(std::unique_ptr<Codec> codec, int64_t elements, uint64_t seed, uint64_t stream)
      : DeltaCodec(std::move(codec), CodecSegment{.count = elements}, seed, stream) {}

  const Codec& codec() const { return *codec_; }
  size_t bound() const { return codec_->bound(segment_); }
  std::span<const float> residual() const { return memory_.residual; }  // what no result holds yet

  // A payload of `values`, pending from now on; what was pending is void. Null: a value, or what it makes with the residual, cannot be
  // encoded.
  SharedBytes encode(std::span<const float> values, int64_t round, const StepProgress& when = {}, int workers = 1);
  // The fate of the pending payload: see CodecMemory.
  void settle(bool counted) { memory_.settle(counted); }
  void drop() { memory_.drop(); }
  void overtaken() { memory_.overtaken(); }

  // sum += weight * values. False: not a payload of this codec; the sum is as it was.
  bool add(std::span<const std::byte> payload, float weight, std::span<float> sum);

 private:
  std::span<std::byte> scratch();

  std::unique_ptr<Codec> codec_;
  CodecSegment segment_;
  std::vector<CodecSegment> tensors_;  // the segment's
  uint64_t seed_, stream_;
  CodecMemory memory_;
  std::vector<std::byte> out_, scratch_;
  PayloadPool payloads_;
};

}  // namespace perigee
