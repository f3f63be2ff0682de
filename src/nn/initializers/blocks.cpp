#include "src/core/error.h"
#include "src/nn/initializers/fill.h"

namespace perigee {

namespace {

constexpr const char* kBlocksPositional[] = {"values"};
constexpr Option kBlocksOptions[] = {{"values", "list of numbers", nullptr, "one for each part, in order"}};

// The biases of a recurrent layer's gates are one vector.
void fill_blocks(const Config& options, const ParameterSpec&, uint64_t, std::span<float> values) {
  const Json* list = options.raw("values");
  const size_t parts = list != nullptr && list->is_array() ? list->as_array().size() : 0;
  if (parts == 0 || values.size() % parts != 0)
    throw Error(ErrorKind::model, {.where = options.where(),
                                   .what = "the values do not cut the tensor into equal parts",
                                   .got = std::to_string(parts) + " values",
                                   .expected = "as many as divide " + std::to_string(values.size())});
  const size_t size = values.size() / parts;
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(list->as_array()[i / size].as_number());
}

}  // namespace

extern const InitializerDef init_blocks;
const InitializerDef init_blocks{.name = "blocks",
                                 .doc = "Equal parts of the tensor, in memory order, each filled with its number of `values`.",
                                 .schema = {.options = kBlocksOptions, .positional = kBlocksPositional},
                                 .fill = fill_blocks};

}  // namespace perigee
