// update_<rule>: one pass over a range of the parameter block.
//   in 0   gradient [E], contiguous
//   out 0  parameter [E], read and written
//   out 1… the rule's states [E], read and written
// Bit-equal on every backend (src/ARCHITECTURE.md, decision 12): + - * / sqrt and comparisons in the order of update_rules.h, in the
// element type (scalars are rounded to it once), no contraction, no reordering.
#pragma once

#include <cstdint>

namespace perigee {

struct UpdateParams {
  double lr = 0;              // step size: bias corrections and the parameter's own scale included
  double gradient_scale = 1;  // g = gradient * gradient_scale
  double clip_value = 0;      // then g is cut to [-clip_value, clip_value]; 0: not
  double l1 = 0, l2 = 0;      // then g += l1 sign(p) + l2 p
  double decay = 0;           // p = (p - decay p) - step: decoupled, with the learning rate in it
  double c[8] = {};           // the rule's own scalars, named in update_rules.h
};

}  // namespace perigee
