// Curves of a run's figures, for its own page and for a comparison.
#pragma once

#include <string>
#include <vector>

#include "src/report/figure.h"
#include "src/report/run_files.h"

namespace perigee {

// A figure over epochs: of training ("") at each report, of a part of the data after each epoch. No points: the log has none.
Series curve_of(const RunFiles& run, const std::string& part, const std::string& figure);
// From where to where they go, in words.
std::string described(const std::vector<Series>& series);

}  // namespace perigee
