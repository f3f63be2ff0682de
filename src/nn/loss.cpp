#include "src/nn/loss.h"

#include "src/graph/op.h"
#include "src/nn/losses/common.h"

namespace perigee {
namespace {

Json as_object(const Json& loss) {
  if (!loss.is_string()) return loss;
  Json object = Json::object();
  object.set("type", loss);
  return object;
}

const LossDef& definition(const Config& options) {
  const std::string type = options.string("type");
  try {
    return loss_named(type);
  } catch (const Error& error) {
    throw error.within(options.where());
  }
}

}  // namespace

Value linked_output(const Json& loss, Value output) {
  const Json object = as_object(loss);
  const std::string link = definition(Config(object, "loss")).link;
  if (link.empty() || before_link(output, link)) return output;
  if (link == "sigmoid") return sigmoid(output);
  return output.graph().apply("softmax", {output}, Json(Json::Object{{"axis", Json(1)}}));
}

Value build_loss(Graph& graph, const Json& loss, const std::string& where, Value output, Value target) {
  const Json object = as_object(loss);
  const Config options(object, where);
  const LossDef& def = definition(options);
  try {
    const Value values = def.build(graph, options, output, target);
    options.reject_unread();
    return values;
  } catch (const Error& error) {
    // The losses' own errors have the full position; those of ops have the graph's scope, or none.
    throw error.parts().where.starts_with(where) ? error : error.within(where);
  }
}

}  // namespace perigee
