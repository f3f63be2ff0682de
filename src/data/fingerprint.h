// Whether two machines read the same data.
#pragma once

#include <cstdint>

#include "src/data/source.h"

namespace perigee {

// XXH3-64 of the fields' names, types and classes, the number of examples, and the bytes of 64 examples spread over all (`full`: of every
// example), as training with `seed` reads them in its first epoch. Paths do not matter. Error(data) from the source.
uint64_t fingerprint(const DataSource& source, uint64_t seed, bool full = false);

}  // namespace perigee
