#include "src/eager/recorder.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/eager/eager.h"
#include "src/graph/autodiff.h"
#include "src/graph/build.h"

namespace perigee {
namespace {

constexpr size_t kMaxNodes = 20'000;

bool recorder_is_real(Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::f64; }

}  // namespace

std::string argument_name(int index) { return "a" + std::to_string(index); }
std::string capture_name(int index) { return "c" + std::to_string(index); }

Value Recorder::value_at(int value) const {
  if (value < 0 || static_cast<size_t>(value) >= values_.size())
    throw Error(ErrorKind::usage, {.what = "there is no such recorded value",
                                   .got = std::to_string(value),
                                   .expected = "one of the " + std::to_string(values_.size()) + " that it gave"});
  return values_[static_cast<size_t>(value)].value;
}

int Recorder::add(Value value, bool number) {
  if (graph_->nodes().size() > kMaxNodes)
    throw Error(ErrorKind::resources, {.what = "the function records more than " + std::to_string(kMaxNodes) + " ops",
                                       .hint = "loops unroll while it is recorded, so it may have one that never ends"});
  values_.push_back({value, number});
  return static_cast<int>(values_.size()) - 1;
}

int Recorder::argument(const Type& type, bool number) { return add(graph_->input(argument_name(leaves_++), type), number); }

int Recorder::capture(const Array& array) {
  for (size_t i = 0; i < captures_.size(); ++i)
    if (captures_[i].storage == array.storage && captures_[i].view.data == array.view.data && captures_[i].view.dtype == array.view.dtype &&
        same_layout(captures_[i].view, array.view))
      return capture_values_[i];
  const int value = add(graph_->input(capture_name(static_cast<int>(captures_.size())), array.type()));
  captures_.push_back(array);
  capture_values_.push_back(value);
  return value;
}

bool Recorder::is_number(const Operand& operand) const {
  return operand.number || (operand.value && values_.at(static_cast<size_t>(*operand.value)).number);
}

Value Recorder::converted(const Operand& operand, Dtype dtype) {
  if (operand.number) return graph_->constant(*operand.number, {dtype, Shape()});
  return operand.value ? cast(value_at(*operand.value), dtype) : Value();
}

// A recorded number is as wide as a fraction: what it will be is not known yet.
std::vector<Value> Recorder::elementwise_operands(std::string_view name, std::span<const Operand> operands, bool* found) {
  Elementwise op;
  *found = find_elementwise(name, &op);
  if (!*found) return {};
  std::vector<OperandDtype> dtypes;
  for (const Operand& operand : operands) {
    if (operand.value && !is_number(operand)) dtypes.push_back({type(*operand.value).dtype, 0});
    else dtypes.push_back({std::nullopt, operand.number.value_or(0.5)});
  }
  Dtype dtype = elementwise_dtype(op, dtypes);
  const bool numbers_only = std::all_of(operands.begin(), operands.end(), [&](const Operand& operand) { return is_number(operand); });
  if (numbers_only) dtype = Dtype::f64;
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(converted(operands[i], op == Elementwise::where && i == 0 ? Dtype::boolean : dtype));
  return values;
}

std::vector<Value> Recorder::other_operands(const OpDef& op, std::span<const Operand> operands) {
  std::vector<Dtype> dtypes;
  for (const Operand& operand : operands)
    dtypes.push_back(operand.value && !is_number(operand) ? type(*operand.value).dtype : Dtype::boolean);  // the narrowest
  if (operands.size() == 1 && is_number(operands[0])) dtypes[0] = Dtype::f64;
  const std::vector<Dtype> wanted = operand_dtypes(op, dtypes);
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(converted(operands[i], is_number(operands[i]) && !dtypes.empty() ? promote(wanted[i], wanted[0]) : wanted[i]));
  return values;
}

std::vector<int> Recorder::apply(std::string_view name, std::span<const Operand> operands, const Json& attrs) {
  bool elementwise = false;
  std::vector<Value> values = elementwise_operands(name, operands, &elementwise);
  if (!elementwise) values = other_operands(op_named(name), operands);
  const bool number =
      !operands.empty() && elementwise && std::all_of(operands.begin(), operands.end(), [&](const Operand& o) { return is_number(o); });
  if (const OpDef* op = find_op(name); op != nullptr && op->reduces == Reduces::mean && !values.empty()) {
    // A sum can be shared among threads that have parts of a batch each, a mean cannot.
    const Value sum = graph_->apply("reduce_sum", values, attrs);
    const double count =
        static_cast<double>(values[0].shape().elements()) / static_cast<double>(std::max<int64_t>(1, sum.shape().elements()));
    return {add(sum * (1 / count), number)};
  }
  std::vector<int> results;
  for (const Value& value : graph_->apply_all(name, values, attrs)) results.push_back(add(value, number));
  return results;
}

std::vector<int> Recorder::append(const Graph& graph, const std::function<Value(const Leaf&)>& leaf) {
  std::vector<std::vector<Value>> moved(graph.nodes().size());
  for (const Leaf& each : graph.leaves()) moved[static_cast<size_t>(each.value.node)] = {leaf(each)};
  for (const Node& node : graph.nodes()) {
    std::vector<Value>& results = moved[static_cast<size_t>(node.id)];
    if (node.op->leaf == LeafOp::table) {
      results = {graph_->constant(graph.constants().at(static_cast<size_t>(attr_int(node, "index"))))};
    } else if (node.op->leaf == LeafOp::none) {
      std::vector<Value> operands;
      for (const ValueId& id : node.inputs)
        operands.push_back(id.node < 0 ? Value() : moved[static_cast<size_t>(id.node)].at(static_cast<size_t>(id.output)));
      graph_->set_scope(node.scope);
      results = graph_->apply_all(node.op->name, operands, node.attrs, node.body);
    }
  }
  graph_->set_scope("");
  std::vector<int> values;
  for (const NamedValue& output : graph.outputs())
    values.push_back(add(moved[static_cast<size_t>(output.value.node)].at(static_cast<size_t>(output.value.output))));
  return values;
}

std::vector<int> Recorder::gradients(int root, std::span<const int> targets) {
  const Value value = value_at(root);
  if (value.shape().elements() != 1 || !recorder_is_real(value.dtype()))
    throw Error(ErrorKind::model, {.what = "gradients are of one real number",
                                   .got = value.type().text(),
                                   .expected = "f32 or f64 of one element",
                                   .hint = "end the function with a sum or a mean"});
  std::vector<Value> wanted;
  for (const int target : targets) {
    wanted.push_back(value_at(target));
    if (!recorder_is_real(wanted.back().dtype()))
      throw Error(
          ErrorKind::model,
          {.what = "there is no gradient with respect to whole numbers", .got = wanted.back().type().text(), .expected = "f32 or f64"});
  }
  const std::vector<Value> found = perigee::gradients(*graph_, value, graph_->constant(1, value.type()), wanted);
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string op = found[i] ? "" : without_derivative(*graph_, value, wanted[i]);
    if (!op.empty())
      throw Error(ErrorKind::model,
                  {.what = "the result depends on " + wanted[i].type().text() + " only through '" + op + "', which has no derivative"});
  }
  std::vector<int> results;
  for (size_t i = 0; i < found.size(); ++i) results.push_back(add(found[i] ? found[i] : graph_->constant(0, wanted[i].type())));
  return results;
}

}  // namespace perigee
