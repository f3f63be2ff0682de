#include "src/nn/initializers/fill.h"

namespace perigee {

extern const InitializerDef init_xavier_legacy;
const InitializerDef init_xavier_legacy{
    .name = "xavier_legacy",
    .doc = "Normal, variance 1 / (first + second dimension): what old Deeplearning4j models were trained with.",
    .fill = [](const Config&, const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
      const double sum = static_cast<double>(spec.shape[0] + (spec.shape.rank() > 1 ? spec.shape[1] : 0));
      fill_normal(spec, seed, 0, std::sqrt(1 / sum), values);
    }};

}  // namespace perigee
