// Initial values of parameters: a function of (seed, parameter name, init description), the same on every machine.
#pragma once

#include <span>
#include <string>

#include "src/core/config.h"
#include "src/nn/layer.h"

namespace perigee {

struct InitializerDef {
  const char* name = nullptr;  // "xavier"
  const char* doc = nullptr;
  Schema schema = {};
  // Fills `values` (row-major, `spec.shape`) from draws of Philox keyed by (seed, hash of spec.name).
  void (*fill)(const Config& options, const ParameterSpec& spec, uint64_t seed, std::span<float> values) = nullptr;
};

const InitializerDef& initializer_named(std::string_view name);
std::span<const InitializerDef* const> all_initializers();

// Applies spec.init (a name, {"type": ...}, or a number).
void initialize(const ParameterSpec& spec, uint64_t seed, std::span<float> values);

}  // namespace perigee
