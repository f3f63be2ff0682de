#include "src/nn/initializer.h"

namespace perigee {

void initialize(const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
  const std::string where = "initial value of '" + spec.name + "'";
  Json options = spec.init;
  if (options.is_number()) {
    options = Json::object();
    options.set("type", "constant");
    options.set("value", spec.init);
  } else if (options.is_string()) {
    options = Json::object();
    options.set("type", spec.init);
  }
  const Config config(options, where);
  const InitializerDef* def = nullptr;
  const std::string type = config.string("type");
  try {
    def = &initializer_named(type);
  } catch (const Error& error) {
    throw error.within(where);
  }
  def->fill(config.with(def->schema), spec, seed, values);
}

}  // namespace perigee
