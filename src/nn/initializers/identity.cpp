#include "src/core/error.h"
#include "src/nn/initializers/fill.h"

namespace perigee {
namespace {

// Dense [n, n]: the identity matrix. Convolutions [n, n, kernel...]: the identity at the centre, so that the layer passes its
// input through; needs odd kernels.
void fill_identity(const Config& options, const ParameterSpec& spec, uint64_t, std::span<float> values) {
  const double gain = options.number("gain");
  const Shape& shape = spec.shape;
  int64_t window = 1, centre = 0;
  bool odd = true;
  for (int i = 2; i < shape.rank(); ++i) {
    centre = centre * shape[i] + shape[i] / 2;
    window *= shape[i];
    odd = odd && shape[i] % 2 == 1;
  }
  if (shape.rank() < 2 || shape[0] != shape[1] || !odd)
    throw Error(ErrorKind::model, {.where = options.where(),
                                   .what = "this shape has no identity",
                                   .got = shape.text(),
                                   .expected = "as many inputs as outputs, and odd kernels"});
  std::fill(values.begin(), values.end(), 0.0f);
  for (int64_t i = 0; i < shape[0]; ++i) values[static_cast<size_t>((i * shape[1] + i) * window + centre)] = static_cast<float>(gain);
}

constexpr Option kIdentityOptions[] = {{"gain", "number", "1", "multiplies each value"}};

}  // namespace

extern const InitializerDef init_identity;
const InitializerDef init_identity{.name = "identity",
                                   .doc = "Passes the input through, times `gain` (1).",
                                   .schema = {.options = kIdentityOptions},
                                   .fill = fill_identity};

}  // namespace perigee
