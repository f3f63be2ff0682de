#include "src/nn/layers/recurrent.h"

namespace perigee {
namespace {

constexpr const char* kBidirectionalPositional[] = {"layer"};
constexpr Option kBidirectionalOptions[] = {
    {"layer", "layer", nullptr, "a recurrent layer: lstm, gru or rnn"},
    {"merge", "name", "concat", "how the two results are joined", {}, {"concat", "sum", "mean", "multiply"}}};

std::vector<Value> build_bidirectional(LayerContext& context, std::span<const Value> inputs) {
  const Config& options = context.options();
  const Json* given = options.raw("layer");
  if (given == nullptr) options.fail("layer", "is missing", "", "lstm, gru or rnn");
  const Json* type = given->is_object() ? given->find("type") : given;
  if (type == nullptr || !type->is_string() || layer_named(type->as_string()).schema.find("reverse") == nullptr)
    options.fail("layer", "does not go through a sequence", type != nullptr && type->is_string() ? type->as_string() : "",
                 "lstm, gru or rnn");
  Json back = given->is_object() ? *given : Json(Json::Object{{"type", *type}});
  for (const char* key : {"reverse", "bidirectional"})
    if (const Json* own = back.find(key); own != nullptr && !own->is_null() && *own != Json(false) && *own != Json("none"))
      options.fail("layer", std::string("has '") + key + "' beside the two directions that it gets here", shown(*own), "",
                   std::string("leave ") + key + " out");
  back.set("reverse", true);
  const std::vector<Value> forward = context.sublayer(*given, "forward", inputs), backward = context.sublayer(back, "backward", inputs);
  if (forward.size() != 1) context.fail("joins one result with one other", std::to_string(forward.size()), "", "returns = all or last");
  const Value y = merged(options.choice("merge"), forward[0], backward[0], 1);
  if (y.rank() == 2) context.set_mask(y, {});  // as many units as there were steps are no steps
  return {y};
}

}  // namespace

extern const LayerDef layer_bidirectional;
const LayerDef layer_bidirectional{
    .name = "bidirectional",
    .stem = "both",
    .doc =
        "A recurrent layer, and another one from the last step to the first, joined: bidirectional = \"concat\" of lstm, "
        "gru and rnn stacks such layers.",
    .example = R"({"type": "bidirectional", "layer": {"type": "gru", "units": 3}, "merge": "multiply"})",
    .example_input = "[2, 3]",
    .schema = layer_schema(kBidirectionalOptions, kBidirectionalPositional),
    .build = build_bidirectional};

}  // namespace perigee
