#include "src/vectors/vector_rows.h"

#include "kernels/pair_loops.h"
#include "kernels/round_up.h"
#include "src/core/error.h"

namespace perigee {

constexpr int64_t kMaxNumbers = int64_t{1} << 40;

VectorRows::VectorRows(int64_t count, int64_t numbers) : rows(count), size(numbers), width(round_up(numbers, kPairAlignment)) {
  if (count > kMaxNumbers / width)
    throw Error(ErrorKind::resources, {.what = "the vectors are too large",
                                       .got = std::to_string(count) + " of " + std::to_string(numbers) + " numbers",
                                       .expected = "at most 2^40 numbers",
                                       .hint = "raise min_count, or set max_words"});
  values = Tensor(Dtype::f32, Shape{rows, width});
}

VectorRows VectorRows::slice(int64_t begin, int64_t end) const {
  VectorRows part;
  part.values = values.rows(begin, end);
  part.rows = end - begin, part.size = size, part.width = width;
  return part;
}

}  // namespace perigee
