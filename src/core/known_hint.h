// The end of an error about a name that nothing has.
#pragma once

#include <string>
#include <vector>

namespace perigee {

// "did you mean 'relu'?"; where no known name is near, all of them, "known: a, b", if they are at most so many; else empty.
std::string known_hint(const std::string& name, const std::vector<std::string>& known, size_t most = 24);

}  // namespace perigee
