// Looking things up in the generated tables.
#include "src/core/error.h"
#include "src/nn/activations.h"
#include "src/nn/initializer.h"
#include "src/nn/layer.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

// An activation in the place of a layer.
std::string activation_hint(std::string_view name) {
  for (const ActivationDef& def : all_activations())
    if (name == def.name)
      return "as a layer it is {\"type\": \"activation\", \"activation\": \"" + std::string(name) + "\"}, or \"activation\": \"" +
             std::string(name) + "\" in the layer before it";
  return "";
}

template <class Def>
const Def& named(std::span<const Def* const> all, std::string_view name, const char* kind,
                 std::string (*other)(std::string_view) = nullptr) {
  std::vector<std::string> known;
  for (const Def* def : all) {
    if (name == def->name) return *def;
    known.push_back(def->name);
  }
  constexpr size_t kListed = 40;  // more would hide the message
  std::string listed, hint = other != nullptr ? other(name) : "";
  if (hint.empty()) hint = nearest_hint(name, known);
  for (const std::string& each : known) listed += (listed.empty() ? "one of " : ", ") + each;
  throw Error(ErrorKind::model, {.what = std::string("there is no ") + kind + " '" + std::string(name.substr(0, 100)) + "'",
                                 .expected = hint.empty() && known.size() <= kListed ? listed : "",
                                 .hint = std::move(hint)});
}

constexpr Option kCommonOptions[] = {
    {"name", "string", "by type and count: conv1, conv2", "unique in its network; parameters are called <name>.weight"},
    {"share", "string", "none", "layers that give the same word use the same parameters"},
    {"trainable", "boolean", "true", "false: its parameters and running statistics stay as they are"},
    {"lr_scale", "number", "1", "multiplies the learning rate of its parameters"},
    {"regularization", "regularization", "the job's", "of its weights"},
    {"constraint", "constraint", "the job's", "of its weights"},
    {"dropout", "number or dropout layer", "0", "share of its inputs that are set to zero in training"},
    {"weight_init", "initializer", "the layer's", "initial weights"},
    {"bias_init", "initializer", "0", "initial biases"},
    {"weight_noise", "{type, ...}", "none", "drop_connect (rate), gaussian (stddev, multiply); bias = true includes biases"},
};

}  // namespace

const LayerDef& layer_named(std::string_view name) { return named(all_layers(), name, "layer", activation_hint); }
const LossDef& loss_named(std::string_view name) { return named(all_losses(), name, "loss"); }
const InitializerDef& initializer_named(std::string_view name) { return named(all_initializers(), name, "initializer"); }

const Schema common_layer_schema{.options = kCommonOptions};

}  // namespace perigee
