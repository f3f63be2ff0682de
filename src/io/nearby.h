// Names beside a path that leads to nothing.
#pragma once

#include <string>

namespace perigee {

// "did you mean 'kept'?": names of the path's folder, as they are written there, that are like its own; empty where none is.
std::string nearby_hint(const std::string& path);

}  // namespace perigee
