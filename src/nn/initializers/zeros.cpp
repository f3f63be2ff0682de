#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_zeros;
const InitializerDef init_zeros{
    .name = "zeros", .doc = "All 0.", .fill = [](const Config&, const ParameterSpec&, uint64_t, std::span<float> values) {
      std::fill(values.begin(), values.end(), 0.0f);
    }};

}  // namespace perigee
