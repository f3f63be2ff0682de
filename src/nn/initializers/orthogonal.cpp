#include <algorithm>
#include <vector>

#include "src/core/error.h"
#include "src/nn/initializers/fill.h"

namespace perigee {
namespace {

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Rows (or columns, when there are more rows than columns) of the [first dimension, rest] matrix are orthonormal, times `gain`.
// Saxe, McClelland and Ganguli 2014. Modified Gram-Schmidt, twice, on normal draws: no library, the same bits everywhere.
void fill_orthogonal(const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
  const double gain = options.number("gain");
  const int64_t rows = spec.shape.rank() > 0 ? spec.shape[0] : 1;
  const int64_t columns = rows > 0 ? static_cast<int64_t>(values.size()) / rows : 0;
  const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  if (count > 0 && count * count > int64_t{2'000'000'000} / length)
    throw Error(
        ErrorKind::model,
        {.where = options.where(), .what = "is too large to be made orthogonal", .got = spec.shape.text(), .hint = "use he_normal"});
  const Draws draws(seed, spec.name);
  std::vector<double> vectors(values.size());
  for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = draws.normal(i);
  for (int64_t i = 0; i < count; ++i) {
    double* v = &vectors[static_cast<size_t>(i * length)];
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double* u = &vectors[static_cast<size_t>(j * length)];
        const double along = dot(u, v, length);
        for (int64_t k = 0; k < length; ++k) v[k] -= along * u[k];
      }
    const double norm = std::sqrt(dot(v, v, length));
    for (int64_t k = 0; k < length; ++k) v[k] /= norm;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      values[static_cast<size_t>(r * columns + c)] =
          static_cast<float>(gain * vectors[static_cast<size_t>(rows <= columns ? r * columns + c : c * rows + r)]);
}

constexpr Option kOrthogonalOptions[] = {{"gain", "number", "1", "multiplies each value"}};

}  // namespace

extern const InitializerDef init_orthogonal;
const InitializerDef init_orthogonal{.name = "orthogonal",
                                     .doc = "Orthonormal rows or columns, times `gain` (1). Saxe et al. 2014.",
                                     .schema = {.options = kOrthogonalOptions},
                                     .fill = fill_orthogonal};

}  // namespace perigee
