// Values of columnar files as columns have them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perigee::tables {

inline int64_t floor_div(int64_t value, int64_t by) { return value / by - (value % by < 0 ? 1 : 0); }

// value / 10^scale, right to the last bit; scale >= 0. Of bytes: big-endian, two's complement, up to 64 of them.
double decimal_value(int64_t value, int64_t scale);
double decimal_value(std::string_view bytes, int64_t scale);
// IEEE 754 binary16, two bytes, little-endian.
double half_value(std::string_view bytes);

}  // namespace perigee::tables
