// What a worker adds to a codec: the memory that it keeps between contributions (residual and state). A payload may be sent and its
// round come to nothing, so what encoding left behind takes effect only when a result holds the payload: nothing is then sent twice or
// lost.
// Owned by the trainer thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cluster/codec.h"
#include "cluster/replica.h"

namespace perigee {

class DeltaCodec {
 public:
  // `stream`: the worker, whose draws are its own.
  DeltaCodec(std::unique_ptr<Codec> codec, int64_t elements, uint64_t seed, uint64_t stream);

  const Codec& codec() const { return *codec_; }
  size_t bound() const { return codec_->bound(segment_); }
  std::span<const float> residual() const { return now_.residual; }  // what no result holds yet

  // A payload of `values`, pending from now on; what was pending is void. Null: a value, or what it makes with the residual, cannot be
  // encoded.
  SharedBytes encode(std::span<const float> values, int64_t round);
  // The next result is here, and holds the pending payload or not: then the memory is what it was before encode().
  void settle(bool counted);
  // The pending payload is given up. The memory is what it was, unless ...
  void drop();
  // ... another worker's result is taken, which may hold that payload all the same: it is taken for counted. At worst it is lost; it never
  // counts twice.
  void overtaken();

  // sum += weight * values. False: not a payload of this codec; the sum is as it was.
  bool add(std::span<const std::byte> payload, float weight, std::span<float> sum);

 private:
  struct Memory {
    std::vector<float> residual, state;
  };
  std::span<std::byte> scratch();

  std::unique_ptr<Codec> codec_;
  CodecSegment segment_;
  uint64_t seed_, stream_;
  Memory now_, other_;  // other_: what it was before the pending payload, or what a dropped one left
  enum class Last : uint8_t { settled, pending, dropped } last_ = Last::settled;
  std::vector<std::byte> out_, scratch_;
};

}  // namespace perigee
