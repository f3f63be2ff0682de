#include "src/nn/own_function.h"

#include "kernels/dtype_kinds.h"
#include "src/graph/op.h"
#include "src/nn/losses/common.h"
#include "src/nn/program.h"

namespace perigee {
namespace {

bool is_plain_number(Value value) {
  const Node& node = value.graph().node(value.id());
  return value.rank() == 0 && node.op->constant && node.inputs.empty();
}

bool is_mean_of_all(Value value) {
  const Node& node = value.graph().node(value.id());
  return node.op->reduces == Reduces::mean && node.in(value.graph(), 0).rank() > 0 && value.shape().elements() == 1;
}

// A mean over a whole batch is the mean of the examples' means. Training takes that mean itself, over all threads and workers, so that it
// needs the examples' values: those of a mean, and of sums of means and numbers. Empty for any other number.
Value value_by_example(Value value) {
  Graph& graph = value.graph();
  const Node node = graph.node(value.id());  // a copy: appending moves nodes
  if (is_mean_of_all(value)) return example_mean(node.in(graph, 0));
  const bool sum = node.op->terms != Terms();
  if (!sum && node.op->scales == 0) return {};
  if (node.inputs.size() == 1) {
    const Value inside = value_by_example(node.in(graph, 0));
    return inside ? graph.apply(node.op->name, {inside}) : Value();
  }
  const Value a = node.in(graph, 0), b = node.in(graph, 1);
  const auto scaled_by = [&](Value number, uint32_t other) { return is_plain_number(number) && (node.op->scales >> other & 1) != 0; };
  if (!sum && !scaled_by(a, 1) && !scaled_by(b, 0)) return {};
  const Value left = is_plain_number(a) ? a : value_by_example(a), right = is_plain_number(b) ? b : value_by_example(b);
  return left && right ? graph.apply(node.op->name, {left, right}) : Value();
}

// Class numbers count from 1, as tensors have them; other targets have the output's dtype, and its shape where only a dimension of 1 differs.
Value target_argument(Value output, Value target) {
  if (!is_floating(target.dtype())) return cast(target, Dtype::i64) + target.graph().constant(1, {Dtype::i64, Shape()});
  const Value value = cast(target, output.dtype());
  const bool column = value.rank() + 1 == output.rank() && output.shape().elements() == value.shape().elements();
  return column ? reshape(value, output.shape()) : value;
}

}  // namespace

Value own_function(Graph& graph, const Config& options, Value output, Value target) {
  const std::vector<std::string> names = options.string_list("inputs"), results = options.string_list("outputs");
  if (names.size() != 2) options.fail("inputs", "must name two values", std::to_string(names.size()), "the output and the target");
  if (results.size() != 1) options.fail("outputs", "must name one value", std::to_string(results.size()));
  const int64_t examples = output.shape()[0];
  Program program(graph, output.dtype());
  program.define(names[0], output, options.where());
  program.define(names[1], target_argument(output, target), options.where());
  program.run(options);
  Value loss = program.value(results[0], options.where());
  if (!is_floating(loss.dtype())) loss = cast(loss, output.dtype());
  if (loss.rank() == 0) {
    loss = value_by_example(loss);
    if (!loss)
      throw Error(ErrorKind::model, {.where = options.where(),
                                     .what = "the function gives one number for the whole batch",
                                     .expected = "one for each example, or a mean: training takes the mean over all threads and workers",
                                     .hint = "reduce over axes from 2 on, or end the function with x:mean()"});
  }
  if (loss.rank() == 0 || loss.shape()[0] != examples)
    throw Error(ErrorKind::model, {.where = options.where(),
                                   .what = "the function's result has lost the batch",
                                   .got = loss.type().text(),
                                   .expected = std::to_string(examples) + " x ...",
                                   .hint = "reduce over axes from 2 on; axis 1 is the batch"});
  return example_mean(loss);
}

}  // namespace perigee
