// families() of src, and codecs and averaging policies.
#pragma once

#include "src/schema/families.h"

namespace perigee {

std::vector<Family> all_families();

}  // namespace perigee
