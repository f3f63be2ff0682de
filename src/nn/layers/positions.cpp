#include <algorithm>
#include <cmath>

#include "src/nn/layers/steps.h"

namespace perigee {
namespace {

constexpr const char* kPositionsPositional[] = {"length"};
constexpr Option kPositionsOptions[] = {
    {"length", "integer", "steps of the input", "steps that a learned table has room for", {1, 1 << 24}},
    {"kind", "name", "learned", "where the numbers come from", {}, {"learned", "sinusoidal"}}};

// [steps, channels]: sines in the even features, cosines in the odd ones, slower from pair to pair. Vaswani et al. 2017.
Value sinusoids(Graph& graph, int64_t steps, int64_t channels, Dtype dtype) {
  std::vector<double> values;
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t c = 0; c < channels; ++c) {
      const double angle = static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(c / 2 * 2) / static_cast<double>(channels));
      values.push_back(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return graph.constant(Tensor::from(Shape{steps, channels}, values).to(dtype));
}

// The rows of `table` for steps that are counted from the beginning of each sequence of a row on.
Value rows_by_sequence(Value table, Value segments) {
  Graph& graph = table.graph();
  const int64_t steps = segments.shape()[1];
  std::vector<double> numbers(static_cast<size_t>(steps));
  for (size_t t = 0; t < numbers.size(); ++t) numbers[t] = static_cast<double>(t + 1);
  const Value number = graph.constant(Tensor::from(Shape{1, steps}, numbers).to(segments.dtype()));
  const Value there = greater(segments, full_like(segments, 0.5));
  const Value place = cast(where(there, number - segments, zeros_like(segments)), Dtype::i64);
  return gather(table, place, 0);
}

// The rows of `table` for steps that are counted where they count: padding in front is passed over, as by transformers' position_ids.
Value rows_by_mask(Value table, Value mask) {
  Json attrs = Json::object();
  attrs.set("axis", 1);
  const Value counted = table.graph().apply("cumulative_sum", {cast(mask, Dtype::f32)}, std::move(attrs)) - 1;
  return gather(table, cast(maximum(counted, zeros_like(counted)), Dtype::i64), 0);
}

std::vector<Value> build_positions(LayerContext& context, std::span<const Value> inputs) {
  require_steps(context, inputs[0]);
  const Value x = steps_first(inputs[0]);
  // A session gets one step at a time, and takes that step's row of the table.
  const Value before = context.steps_before();
  const int64_t steps = before ? context.steps_at_once(true) : x.shape()[1], channels = x.shape()[2];
  Value table;
  if (context.options().choice("kind") == "sinusoidal") {
    if (context.options().has("length")) context.options().fail("length", "has no effect", "kind = 'sinusoidal'", "kind = 'learned'");
    table = sinusoids(context.graph(), steps, channels, x.dtype());
  } else {
    // A cut input takes the first rows of the whole one's table.
    const int64_t length = context.options().integer("length", std::max(steps, context.steps_at_once(false)));
    if (length < steps)
      context.options().fail("length", "is less than the steps of the input", std::to_string(length), "at least " + std::to_string(steps));
    Json init = Json::object();
    init.set("type", "normal");
    init.set("stddev", 0.02);
    table = context.parameter("weight", Shape{length, channels}, ParameterRole::weight, length, channels, init);
    if (length > steps) table = part_of(table, 0, 0, steps);
  }
  if (before) table = reshape(gather(table, before, 0), x.shape());
  else if (const Value segments = context.segments(inputs[0])) table = rows_by_sequence(table, segments);
  else if (const Value mask = context.mask(inputs[0])) table = rows_by_mask(table, mask);
  return {features_first(x + table)};
}

}  // namespace

extern const LayerDef layer_positions;
const LayerDef layer_positions{
    .name = "positions",
    .stem = "positions",
    .doc = "Adds to each step of a sequence numbers that tell where it is, from the sequence's own beginning on.",
    .example = R"({"type": "positions", "length": 7})",
    .example_input = "[4, 5]",
    .schema = layer_schema(kPositionsOptions, kPositionsPositional),
    .build = build_positions,
    .step_use = each_step};

}  // namespace perigee
