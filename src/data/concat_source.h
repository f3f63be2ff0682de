// Sources one after the other. They have the same fields.
#pragma once

#include <string>
#include <vector>

#include "src/data/source.h"

namespace perigee {

// Error(data) with `where` when names, types, shapes or classes of the fields differ. A single source is returned as it is.
SourcePtr concat_sources(std::vector<SourcePtr> sources, const std::string& where);

}  // namespace perigee
