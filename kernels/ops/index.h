// Dimensions: x is (outer..., A, inner...), A being dimension `axis`; indices (i64) have dims K.
// gather: in[0] x, in[1] indices -> out[0] (outer..., K..., inner...), x's slices at the indices.
// scatter_add: in[0] updates (outer..., K..., inner...), in[1] indices -> out[0] (outer..., A, inner...), the adjoint of gather:
//   each slice is added where its index says, in the order of the indices.
// one_hot: in[0] indices K -> out[0] (K..., depth): `on` at the index, `off` elsewhere.
// An index outside 0..A-1 gathers NaN (0 for integers), so that a loss shows it; scatter_add and one_hot pass over it.
#pragma once

#include <cstdint>

namespace perigee {

struct IndexParams {
  int32_t axis;
};

struct OneHotParams {
  double on, off;
};

}  // namespace perigee
