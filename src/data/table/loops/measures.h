// Sums of windows of rows, and the moments of a whole column.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

// The sums of the last `window` values of each of these rows, of the rows there are at the begin; of a column without gaps. Each is added up in the
// order of its rows, so that it does not depend on where the sequence begins.
void moving_sums(const Column& column, int64_t begin, int64_t end, int64_t window, double* out);

// The finite ones of a column of reals: how many, mean, squares, least and greatest, in one pass over the memory.
struct Measures {
  int64_t count = 0;
  double mean = 0, squares = 0, least = 0, most = 0;
};
Measures measures_of(std::span<const double> values);
// The same of values that come in parts, however they are cut.
class MeasuredParts {
 public:
  void add(std::span<const double> values);
  Measures result();

 private:
  Measures all_ = {};
  bool any_ = false;
  std::vector<double> rest_;  // of a block that is not full yet
};

}  // namespace perigee::tables
