#include "src/model/losses/training_loss.h"

#include <algorithm>

#include "src/graph/build.h"
#include "src/nn/loss.h"

namespace perigee {
namespace {

Type batched(const Type& type, int64_t batch) {
  std::vector<int64_t> dims = type.shape.vector();
  dims.insert(dims.begin(), batch);
  return {type.dtype, Shape(dims)};
}

// [N], [N, T] or [N, d...] in a form that broadcasts to `rank` dimensions: the last one is the time.
Value spread(Value weights, int rank) {
  if (weights.rank() >= rank) return weights;
  const std::vector<int64_t> own = weights.shape().vector();
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[0] = own[0];
  for (size_t i = 1; i < own.size(); ++i) dims[dims.size() - own.size() + i] = own[i];
  return reshape(weights, Shape(dims));
}

Value product_of(Value a, Value b) {
  if (!a || !b) return a ? a : b;
  const int rank = std::max(a.rank(), b.rank());
  return spread(a, rank) * spread(b, rank);
}

struct Counting {
  Value steps;    // 1 where a step counts, 0 where it does not; empty: all do
  Value weights;  // of examples or steps; empty: all 1
};

Counting counting_of(Graph& graph, const ModelSpec& spec, const Json& loss, const NetworkInput& field, Value output, Value target) {
  Counting counting;
  const int64_t batch = output.shape()[0];
  for (const NetworkInput& role : spec.target_roles) {
    if (role.of != field.name) continue;
    const Value given = graph.input(role.name, batched(role.type, batch));
    if (role.role == FieldRole::weight)
      counting.weights = product_of(counting.weights, role.type.shape.elements() == 1 ? reshape(cast(given, output.dtype()), Shape{batch})
                                                                                      : cast(given, output.dtype()));
    else counting.steps = product_of(counting.steps, steps_mask(role.role, given, target.shape()[target.rank() - 1], output.dtype()));
  }
  if (const auto ignored = ignored_class(loss)) {
    Value differs = not_equal(target, graph.constant(static_cast<double>(*ignored), {target.dtype(), Shape()}));
    if (target.rank() == output.rank() && target.shape()[1] == 1) differs = reshape(differs, Shape{batch});
    const auto number = [&](double value) { return graph.constant(value, {output.dtype(), Shape()}); };
    counting.steps = product_of(counting.steps, where(differs, number(1), number(0)));
  }
  return counting;
}

// The sum of the weights of an example's positions, as StepWeights counts them: what a number of the whole example is multiplied by.
Value weight_of_example(Value weights, Value output, const NetworkInput& field) {
  if (!weights || weights.rank() == 1) return weights;
  std::vector<int64_t> axes;
  for (int i = 1; i < weights.rank(); ++i) axes.push_back(i);
  const Value sum = reduce_sum(weights, axes);
  const int64_t positions = field.type.shape.elements(), own = weights.shape().elements() / std::max<int64_t>(weights.shape()[0], 1);
  const bool labels = output.rank() == field.type.shape.rank() + 2;
  return labels && own > 0 && positions > own ? sum * static_cast<double>(positions / own) : sum;
}

// `counts`, when not null, gets what numbers of whole examples are multiplied by, or stays empty.
Value add_head(Graph& graph, const ModelSpec& spec, const Json& loss, const NetworkInput& field, Value output, Value mask, double weight,
               Value* counts = nullptr) {
  Value target = graph.input(field.name, batched(field.type, output.shape()[0]));
  const Counting counting = counting_of(graph, spec, loss, field, output, target);
  const Value weights = product_of(counting.steps, counting.weights);
  if (counts != nullptr) *counts = weight_of_example(weights, output, field);
  // In the padding there may be anything, such as a label that is no class.
  if (counting.steps)
    target = where(greater(spread(counting.steps, target.rank()), graph.constant(0, {output.dtype(), Shape()})), target,
                   graph.constant(0, {target.dtype(), Shape()}));
  const std::string place = spec.where + ": loss";
  if (mask && has_own_steps(loss) && (!weights || weights.rank() == 1)) {
    const Value steps = cast(reduce_sum(mask, {1}), Dtype::i64);
    const Value each = build_loss_of_steps(graph, loss, place, output, target, steps);
    const Value counted = weights ? each * weights : each;
    return weight == 1 ? counted : counted * weight;
  }
  const Value value =
      weights ? build_weighted_loss(graph, loss, place, output, target, weights) : build_loss(graph, loss, place, output, target);
  return weight == 1 ? value : value * weight;
}

Value add_head(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, const LossHead& head, double weight,
               Value* counts = nullptr) {
  const auto place = static_cast<size_t>(head.output);
  return add_head(graph, spec, head.loss, head.target, built.outputs.at(place), built.masks.at(place), weight, counts);
}

}  // namespace

std::vector<LossHead> heads_of(const ModelSpec& spec) {
  std::vector<LossHead> heads = {
      {.output = spec.loss_output, .target = spec.target, .loss = spec.loss, .weight = spec.loss_weight, .schedule = spec.loss_schedule}};
  heads.insert(heads.end(), spec.more_heads.begin(), spec.more_heads.end());
  return heads;
}

LossFactor factor_of(const ModelSpec& spec, const LossHead& head) {
  const Json* names = spec.network.find("outputs");
  const std::string name = names != nullptr ? names->as_array().at(static_cast<size_t>(head.output)).as_string() : "output";
  return {
      .input = std::string(kLossFactor) + "loss." + name, .schedule = head.schedule, .where = spec.where + ": loss." + name + ": weight"};
}

Value add_loss(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, bool steps) {
  graph.set_scope("loss");
  Value loss, counts;
  for (const LossHead& head : heads_of(spec)) {
    const bool scheduled = steps && !head.schedule.is_null();
    Value one = add_head(graph, spec, built, head, scheduled ? 1 : head.weight, loss ? nullptr : &counts);
    if (scheduled) one = one * graph.input(factor_of(spec, head).input, one.type());
    loss = loss ? loss + one : one;
  }
  for (const Value& term : built.losses) loss = loss + (counts ? term * counts : term);
  graph.set_scope("");
  return loss;
}

Value add_loss_of(Graph& graph, const ModelSpec& spec, const BuiltNetwork& built, size_t head) {
  graph.set_scope("loss");
  const Value loss = add_head(graph, spec, built, heads_of(spec).at(head), 1);
  graph.set_scope("");
  return loss;
}

const Json& loss_of(const ModelSpec& spec, int output) {
  static const Json kNone;
  if (output == spec.loss_output) return spec.loss;
  for (const LossHead& head : spec.more_heads)
    if (head.output == output) return head.loss;
  return kNone;
}

}  // namespace perigee
