// As src/precompiled.hpp, for the kernels that are compiled once per instruction set: two thirds of the time of a small one are these.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
