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
    if (options.where().empty()) throw;
    throw error.within(options.where());
  }
}

constexpr Option kOutputOptions[] = {{"target", "string", "the job's", "with several outputs: the field that this one foretells"},
                                     {"weight", "number", "1", "with several outputs: factor of this one's loss", {0, 1e9}}};

}  // namespace

const Schema output_loss_schema{.options = kOutputOptions};

std::string link_of_loss(const Json& loss) {
  const Json object = as_object(loss);
  const LossDef& def = definition(Config(object, ""));
  const Json* own = def.schema.find("link") ? object.find("link") : nullptr;  // a function of one's own says it itself
  return own && own->is_string() ? own->as_string() : def.link;
}

Value linked_output(const Json& loss, Value output) {
  const std::string link = link_of_loss(loss);
  if (link.empty() || before_link(output, link)) return output;
  if (link == "sigmoid") return sigmoid(output);
  return output.graph().apply("softmax", {output}, Json(Json::Object{{"axis", Json(1)}}));
}

Value build_loss(Graph& graph, const Json& loss, const std::string& where, Value output, Value target) {
  const Json object = as_object(loss);
  const LossDef& def = definition(Config(object, where));
  const Config options(object, def.schema, where);
  try {
    return def.build(graph, options, output, target);
  } catch (const Error& error) {
    // The losses' own errors have the full position; those of ops have the graph's scope, or none.
    throw error.parts().where.starts_with(where) ? error : error.within(where);
  }
}

}  // namespace perigee
