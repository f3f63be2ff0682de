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
                                     {"weight",
                                      "number or schedule",
                                      "1",
                                      "with several outputs: factor of this one's loss; of a schedule, evaluations take the end",
                                      {0, 1e9}}};

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
  Json attrs;
  if (op_named(link).attributes.find("axis")) attrs = Json(Json::Object{{"axis", Json(1)}});
  return output.graph().apply(link, {output}, std::move(attrs));
}

bool has_own_steps(const Json& loss) {
  const Json object = as_object(loss);
  return definition(Config(object, "")).build_of_steps != nullptr;
}

Value build_loss(Graph& graph, const Json& loss, const std::string& where, Value output, Value target) {
  return build_loss_of_steps(graph, loss, where, output, target, {});
}

Value build_loss_of_steps(Graph& graph, const Json& loss, const std::string& where, Value output, Value target, Value steps) {
  const Json object = as_object(loss);
  const LossDef& def = definition(Config(object, where));
  const Config options(object, def.schema, where);
  try {
    return steps ? def.build_of_steps(graph, options, output, target, steps) : def.build(graph, options, output, target);
  } catch (const Error& error) {
    // The losses' own errors have the full position; those of ops have the graph's scope, or none.
    throw error.parts().where.starts_with(where) ? error : error.within(where);
  }
}

namespace {

// The terms that `loss` [N] has summed or averaged inside each example, in the shape of the weights; empty when it is no such sum.
Value terms_behind(Value loss, const Shape& wanted) {
  Graph& graph = loss.graph();
  const Node node = graph.node(loss.id());  // a copy: appending moves nodes
  const bool mean = node.op->reduces == Reduces::mean;
  if (!mean && node.op->reduces != Reduces::sum) return {};
  const Value values = node.in(graph, 0);
  std::vector<int64_t> axes;
  for (int i = 1; i <= values.rank() - wanted.rank(); ++i) axes.push_back(i);
  if (values.rank() < wanted.rank()) return {};
  const Value terms = axes.empty() ? values : mean ? reduce_mean(values, axes) : reduce_sum(values, axes);
  return terms.shape() == wanted ? terms : Value();
}

}  // namespace

Value build_weighted_loss(Graph& graph, const Json& loss, const std::string& where, Value output, Value target, Value weights) {
  const Json object = as_object(loss);
  const LossDef& def = definition(Config(object, where));
  if (def.whole_batch)
    throw Error(ErrorKind::model, {.where = where,
                                   .what = std::string("the loss '") + def.name + "' takes the batch as a whole and knows no weights",
                                   .hint = "leave out the weights, or take binary_cross_entropy"});
  const Value value = build_loss(graph, loss, where, output, target);
  if (weights.rank() == 1) return value * weights;
  const Value terms = terms_behind(value, weights.shape());
  if (!terms)
    throw Error(ErrorKind::model,
                {.where = where,
                 .what = std::string("the loss '") + def.name + "' has no value for each step, which lengths and masks need",
                 .got = "outputs " + output.shape().text() + ", weights " + weights.shape().text(),
                 .hint = "take a loss of single values, such as cross_entropy or mse, or one weight for each example"});
  std::vector<int64_t> axes;
  for (int i = 1; i < weights.rank(); ++i) axes.push_back(i);
  return reduce_sum(terms * weights, axes);
}

std::optional<int64_t> ignored_class(const Json& loss) {
  const Json* ignore = loss.is_object() ? loss.find("ignore") : nullptr;
  if (!ignore || !ignore->is_number()) return std::nullopt;
  return static_cast<int64_t>(ignore->as_number());
}

}  // namespace perigee
