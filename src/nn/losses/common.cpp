#include "src/nn/losses/common.h"

#include "kernels/dtype_kinds.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

std::vector<int64_t> inner_axes(Value x) {
  std::vector<int64_t> axes;
  for (int i = 1; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

[[noreturn]] void misfit(const Config& options, Value output, Value target, std::string expected, std::string hint = "") {
  throw Error(ErrorKind::model, {.where = options.where(),
                                 .what = "the target does not fit the network's output " + output.type().text(),
                                 .got = target.type().text(),
                                 .expected = std::move(expected),
                                 .hint = std::move(hint)});
}

}  // namespace

namespace {

// Which of both to change, where each example has a row of numbers.
std::string size_hint(Value output, Value target) {
  if (output.rank() != 2 || target.rank() > 2 || target.rank() < 1) return "";
  const int64_t outputs = output.shape()[1], numbers = target.rank() == 2 ? target.shape()[1] : 1;
  const std::string wanted = std::to_string(numbers);
  return "the network has " + std::to_string(outputs) + (outputs == 1 ? " output" : " outputs") + ", and the target " + wanted +
         (numbers == 1 ? " number" : " numbers") + " in each example: give the last layer " + wanted +
         (numbers == 1 ? " output" : " outputs") + ": pg.dense { " + wanted + " }";
}

}  // namespace

Value before_link(Value output, const std::string& link) {
  Graph& graph = output.graph();
  const Node& node = graph.node(output.id());
  if (link.empty() || link != node.op->name) return {};
  if (node.op->attributes.find("axis")) {
    const int64_t axis = attr_int(node, "axis");
    if (axis != 1 && axis + output.rank() != 1) return {};
  }
  return node.in(graph, 0);
}

Value matched_target(const Config& options, Value output, Value target) {
  const Value value = cast(target, output.dtype());
  if (value.shape() == output.shape()) return value;
  const bool same_count =
      value.shape().elements() == output.shape().elements() && value.rank() > 0 && value.shape()[0] == output.shape()[0];
  const bool column = (value.rank() == 1 && output.rank() == 2) || (value.rank() == 2 && output.rank() == 1);
  if (same_count && column) return reshape(value, output.shape());
  misfit(options, output, target, output.shape().text(),
         is_floating(target.dtype()) ? size_hint(output, target) : "class labels take loss = \"cross_entropy\"");
}

Value class_target(const Config& options, Value output, Value target) {
  if (output.rank() < 2 || target.rank() < 1 || target.shape()[0] != output.shape()[0])
    misfit(options, output, target, "outputs NxC with classes N or distributions NxC");
  if (is_floating(target.dtype()) && target.shape() == output.shape() && output.shape()[1] > 1) return {};
  std::vector<int64_t> dims = output.shape().vector();
  dims.erase(dims.begin() + 1);
  const Shape wanted(dims);
  Value classes = target;
  if (target.rank() == output.rank() && target.shape()[1] == 1 && target.shape().elements() == wanted.elements())
    classes = reshape(target, wanted);
  if (classes.shape() != wanted)
    misfit(options, output, target, "classes " + wanted.text() + " or distributions " + output.shape().text(),
           "does the last layer have as many outputs as there are classes?");
  return cast(classes, Dtype::i64);
}

Value output_weights(const Config& options, Value output) {
  const Json* list = options.raw("weights");
  if (list == nullptr || list->is_null()) return {};
  const int64_t count = output.rank() > 1 ? output.shape()[1] : 1;
  if (!list->is_array() || static_cast<int64_t>(list->as_array().size()) != count)
    options.fail("weights", "must have one number for each of the " + std::to_string(count) + " outputs",
                 list->is_array() ? std::to_string(list->as_array().size()) : list->type_name());
  std::vector<double> values;
  for (const Json& item : list->as_array()) values.push_back(item.as_number());
  std::vector<int64_t> dims(static_cast<size_t>(std::max(output.rank(), 1)), 1);
  if (output.rank() > 1) dims[1] = count;
  return output.graph().constant(Tensor::from(Shape(dims), values).to(output.dtype()));
}

Value example_mean(Value values) { return values.rank() == 1 ? values : reduce_mean(values, inner_axes(values)); }

Value flatten_example(Value values) {
  const int64_t n = values.shape()[0];
  return values.rank() == 2 ? values : reshape(values, Shape{n, n == 0 ? 0 : values.shape().elements() / n});
}

Value number_like(Value like, double value) { return like.graph().constant(value, {like.dtype(), Shape()}); }

Value reduced(const Config& options, Value values) {
  const std::string reduction = options.choice("reduction");
  const Value weights = output_weights(options, values), weighted = weights ? values * weights : values;
  if (reduction == "mean") return example_mean(weighted);
  return weighted.rank() == 1 ? weighted : reduce_sum(weighted, inner_axes(weighted));
}

Value smoothed_yes(Value y, double smoothing) { return smoothing > 0 ? y * (1 - smoothing) + 0.5 * smoothing : y; }

Value hinge_loss(const Config& options, Value output, Value target, Value (*f)(Value)) {
  const double smoothing = options.number("label_smoothing");
  const Value margin = matched_target(options, output, target) * output;
  const Value meant = f(1.0 - margin);
  return reduced(options, smoothing > 0 ? (1 - smoothing / 2) * meant + smoothing / 2 * f(1.0 + margin) : meant);
}

Value binary_terms(const Config& options, Value output, Value target) {
  const double smoothing = options.number("label_smoothing");
  const Value inner = before_link(output, "sigmoid"), x = inner ? inner : output;
  const Value y = smoothed_yes(matched_target(options, output, target), smoothing);
  return softplus(x) - x * y;
}

Value class_distribution(Graph& graph, const Config& options, Value output, Value target) {
  const Value classes = class_target(options, output, target);
  if (!classes) return cast(target, output.dtype());
  Json attrs = Json::object();
  attrs.set("depth", output.shape()[1]);
  attrs.set("dtype", dtype_name(output.dtype()));
  const Value last = graph.apply("one_hot", {classes}, std::move(attrs));  // [N, d..., C]
  if (output.rank() == 2) return last;
  std::vector<int64_t> order{0, output.rank() - 1};
  for (int i = 1; i < output.rank() - 1; ++i) order.push_back(i);
  return transpose(last, order);
}

namespace {

// One loss a step, [N, T], of logits [N, C, T] that a layer has made step by step: kernels like rows of classes.
Value step_losses(Value logits, Value classes, const Json& attrs) {
  Graph& graph = logits.graph();
  const Value rows = graph.apply("fold_steps", {transpose(logits, {0, 2, 1})}), labels = graph.apply("fold_steps", {classes});
  return graph.apply("unfold_steps", {graph.apply("cross_entropy", {rows, labels}, attrs)},
                     Json(Json::Object{{"steps", Json(logits.shape()[2])}}));
}

bool made_by_steps(Value logits) { return logits.rank() == 3 && logits.graph().node(logits.id()).op->permutes; }

}  // namespace

Value class_cross_entropy(Graph& graph, const Config& options, Value output, Value target) {
  const double smoothing = options.number("label_smoothing");
  const Value inner = before_link(output, "softmax"), logits = inner ? inner : output;
  if (const Value weights = output_weights(options, output)) {
    const Value q =
        class_distribution(graph, options, output, target) * (1 - smoothing) + smoothing / static_cast<double>(output.shape()[1]);
    const Value log_p = log_softmax(logits);
    return example_mean(-reduce_sum(weights * q * log_p, {1}));
  }
  const Value classes = class_target(options, output, target);
  Json attrs = Json::object();
  attrs.set("label_smoothing", smoothing);
  if (classes && made_by_steps(logits)) return example_mean(step_losses(logits, classes, attrs));
  return example_mean(graph.apply("cross_entropy", {logits, classes ? classes : cast(target, logits.dtype())}, std::move(attrs)));
}

}  // namespace perigee
