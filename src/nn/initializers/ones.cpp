#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_ones;
const InitializerDef init_ones{
    .name = "ones", .doc = "All 1.", .fill = [](const Config&, const ParameterSpec&, uint64_t, std::span<float> values) {
      std::fill(values.begin(), values.end(), 1.0f);
    }};

}  // namespace perigee
