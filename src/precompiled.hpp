// Standard headers that most files include, read once per library instead of once per file. No header of the project is among them: gcc knows
// a `#pragma once` file again by its time, which a compiler cache does not keep. Each file still includes what it uses:
// the part `alone` of the tests compiles each file without this one, lint checks headers.
#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
