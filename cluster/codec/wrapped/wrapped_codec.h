// A codec around another one: what the inner codec says of itself holds, unless the outer one says otherwise.
#pragma once

#include <memory>
#include <utility>

#include "cluster/codec/codec.h"

namespace perigee {

class WrappedCodec : public Codec {
 public:
  size_t bound(const CodecSegment& segment) const override { return inner_->bound(segment); }
  double bits_per_element(const CodecSegment& segment) const override { return inner_->bits_per_element(segment); }
  size_t state_floats(const CodecSegment& segment) const override { return inner_->state_floats(segment); }
  bool keeps_zero() const override { return inner_->keeps_zero(); }
  float limit() const override { return inner_->limit(); }

 protected:
  WrappedCodec(std::unique_ptr<Codec> inner, const CodecSetup& setup) : Codec(setup), inner_(std::move(inner)) {}
  const Codec& inner() const { return *inner_; }
  // Its scratch comes first, up to a border, so that what follows is aligned.
  size_t inner_scratch(const CodecSegment& segment) const { return (inner_->scratch_bytes(segment) + 63) / 64 * 64; }

 private:
  // A wrapper overrides encode and decode_add, which do without these.
  size_t encode_body(const EncodeCall&, PayloadHeader*, std::byte*) const final { return 0; }
  bool decode_body(const PayloadHeader&, std::span<const std::byte>, float, const CodecSegment&, std::span<float>,
                   std::span<std::byte>) const final {
    return false;
  }
  void add_options(Json*) const final {}

  std::unique_ptr<Codec> inner_;
};

}  // namespace perigee
