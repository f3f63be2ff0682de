// A line search by doubling and zooming (Nocedal and Wright, "Numerical Optimization", 1999, algorithms 3.5 and 3.6), whose steps must also be
// accepted by the caller: what conjugate gradients take where the first search's step would make no direction of descent.
#pragma once

#include "src/optim/line_search.h"

namespace perigee {

LineSearchResult search_by_zoom(const LineSearchOptions& options, const LineValue& start, double first,
                                const std::function<LineValue(double step)>& at, const std::function<bool()>& accepts_last);

}  // namespace perigee
