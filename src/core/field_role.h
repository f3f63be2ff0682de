// How a field of the data serves another one: it says how long it is, which of its steps count, or how much they count.
#pragma once

#include <cstdint>

namespace perigee {

enum class FieldRole : uint8_t {
  none,
  length,  // an integer for each example: so many steps are there, from the first on
  mask,    // 0 or 1 for each step of the last axis
  weight,  // a number for each example, or for each step of the last axis
  // For each step of the last axis the step with which its sequence begins, counted from 1, where several lie in a row one after the other. 0: none.
  segment,
};

}  // namespace perigee
