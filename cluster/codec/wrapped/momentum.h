// Momentum before a codec, in the worker: momentum correction and factor masking of DGC (Lin et al. 2018), Signum's momentum.
#pragma once

#include "cluster/codec/codec.h"

namespace perigee {

// u = momentum u + s x is what `inner` encodes in place of x, s <= 1 so that |s x| <= clip_norm / sqrt(workers). Where `inner` sends whole
// elements, u is zero afterwards at those that were sent. u stands in the state, before that of `inner`.
std::unique_ptr<Codec> make_momentum_codec(std::unique_ptr<Codec> inner, const CodecSetup& setup, double momentum, double clip_norm);

}  // namespace perigee
