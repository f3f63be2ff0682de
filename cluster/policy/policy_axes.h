// The axes of the space in which averaging policies are points (src/ARCHITECTURE.md, idea 3). One file policy_<axis>.cpp has the options of
// one: their help, how they are read and checked, how they are written. policy.cpp walks all of them.
#pragma once

#include <span>
#include <vector>

#include "cluster/policy/policy.h"

namespace perigee {

struct PolicyAxis {
  bool (*applies)(const PolicyDef& def) = nullptr;
  std::vector<Option> (*options)() = nullptr;
  // Error(model). Later axes may rely on what earlier ones have read.
  void (*read)(const Config& config, const PolicyDef& def, Policy* policy) = nullptr;
  void (*write)(const Policy& policy, Json* json) = nullptr;  // nothing where the policy has not got it
  // Its part of describe_policy(), in phrases. Later axes may change what earlier ones have said. Null: nothing.
  void (*describe)(const Policy& policy, Json* told) = nullptr;
};

// All of meson.build's list, in its order.
std::span<const PolicyAxis* const> policy_axes();
std::vector<Option> codec_options_of(const PolicyDef& def);  // policy_gradient.cpp

// A text that an option of a policy points to: it is kept as long as the program runs.
const char* kept_text(const std::string& text);

// policy_layers.cpp: {"fc.*": {"type": "periodic", ...}, "*": ...} instead of one policy.
bool is_layers(const Json& averaging);
Policy read_layers(const Json& averaging, const std::string& path);
Json layers_to_json(const Policy& policy);

// As read_policy; `path` names it in errors.
Policy read_policy_at(const Json* averaging, const std::string& path);

// policy_inner.cpp: nested, which is made of two policies.
std::vector<Option> nested_options();
Policy read_nested(const Config& config);
Json write_nested(const Policy& policy);

}  // namespace perigee
