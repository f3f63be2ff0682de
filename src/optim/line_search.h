// Line searches for methods that minimise a function along a direction: by the strong Wolfe conditions (Moré and Thuente, "Line search algorithms with
// guaranteed sufficient decrease", ACM TOMS 20, 1994) and back-tracking until the decrease is sufficient (Armijo).
#pragma once

#include <functional>

namespace perigee {

struct LineValue {
  double value = 0, slope = 0;  // of the function along the direction; a value that is not finite is too far
};

struct LineSearchOptions {
  bool wolfe = true;         // false: back-tracking
  double decrease = 1e-4;    // of the value, as a share of what the first slope promises
  double curvature = 0.9;    // the slope becomes less than this share of the first one
  double precision = 0.1;    // of the interval, relative to its upper end
  double longest = 1e10;     // step
  int evaluations = 20;      // at most
  bool bends_early = false;  // the second stage may begin while the slope is still falling a little
};

struct LineSearchResult {
  double step = 0;
  LineValue at;
  int evaluations = 0;
  bool found = false;  // else the last step that was tried
};

// `at` is asked for the value at a step; the last one that it is asked for is the result's. `start` is that at 0, whose slope is below 0.
LineSearchResult search_line(const LineSearchOptions& options, const LineValue& start, double first,
                             const std::function<LineValue(double step)>& at);

}  // namespace perigee
