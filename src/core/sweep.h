// A grid of settings: "every=1,5,50" gives one name several values, and several sweeps give every combination.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace perigee {

// Values by name, in the order of the sweeps.
using SweepPoint = std::vector<std::pair<std::string, std::string>>;

// The last sweep varies fastest; without sweeps there is one point without values. Error(usage) that names `option` and the sweep: not
// of the form name=value,value, or more than `most` points.
std::vector<SweepPoint> sweep_points(const std::vector<std::string>& sweeps, size_t most, const std::string& option = "--sweep");

}  // namespace perigee
