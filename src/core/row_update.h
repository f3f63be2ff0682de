// How training updates a table of rows of which a batch reads only some, such as the vectors of an embedding.
#pragma once

#include <cstdint>

namespace perigee {

enum class RowUpdate : uint8_t {
  dense,  // every row in every step
  exact,  // rows that no example reads wait: before one is read it makes the steps that it missed, so that its bits are those of `dense`
  lazy,   // rows whose gradient is zero stay as they are, and so do their states: PyTorch's SparseAdam
};

}  // namespace perigee
