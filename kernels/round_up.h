#pragma once

namespace perigee {

// The least multiple of `border` that is not below n; n is not negative.
template <class T>
constexpr T round_up(T n, T border) {
  return (n + border - 1) / border * border;
}

}  // namespace perigee
