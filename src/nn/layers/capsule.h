// Capsules (Sabour et al. 2017, arXiv:1710.09829): groups of numbers whose length says how surely something is there.
#pragma once

#include "src/graph/build.h"

namespace perigee {

// The vectors along the last axis, with lengths between 0 and 1: v = |s|^2 / (1 + |s|^2) s / |s|.
Value squash(Value s);

}  // namespace perigee
