#include "src/graph/graph.h"

#include <cassert>
#include <memory>

#include "src/core/error.h"
#include "src/graph/op.h"

namespace perigee {

const Type& Value::type() const {
  assert(graph_);
  return graph_->type(id_);
}

Value Node::in(Graph& graph, size_t i) const {
  if (i >= inputs.size() || inputs[i].node < 0) return {};
  return Value(&graph, inputs[i]);
}

Value Node::out(Graph& graph, int i) const {
  assert(id >= 0);
  return Value(&graph, {id, i});
}

Value Graph::leaf(LeafKind kind, const std::string& name, const Type& type) {
  static constexpr const char* kKindNames[] = {"input", "parameter", "state"};
  const char* kind_name = kKindNames[static_cast<int>(kind)];
  for (const Leaf& known : leaves_) {
    if (known.kind != kind || known.name != name) continue;
    if (this->type(known.value) != type)
      throw Error(ErrorKind::model, {.where = scope_,
                                     .what = std::string(kind_name) + " '" + name + "' is used with two types",
                                     .got = type.text(),
                                     .expected = this->type(known.value).text()});
    return Value(this, known.value);
  }
  Json attrs;
  attrs.set("name", name);
  const ValueId id = append({.op = &op_named(kind_name), .attrs = std::move(attrs), .outputs = {type}, .scope = scope_});
  leaves_.push_back({name, kind, id});
  return Value(this, id);
}

Value Graph::input(const std::string& name, const Type& type) { return leaf(LeafKind::input, name, type); }
Value Graph::parameter(const std::string& name, const Type& type) { return leaf(LeafKind::parameter, name, type); }
Value Graph::state(const std::string& name, const Type& type) { return leaf(LeafKind::state, name, type); }

Value Graph::constant(double value, const Type& type) {
  Json attrs;
  attrs.set("value", value);
  attrs.set("shape", ints_json(type.shape.vector()));
  attrs.set("dtype", dtype_name(type.dtype));
  return apply("full", std::span<const Value>(), std::move(attrs));
}

Value Graph::constant(const Tensor& tensor) {
  Json attrs;
  attrs.set("index", add_constant(tensor));
  return Value(
      this, append({.op = &op_named("table"), .attrs = std::move(attrs), .outputs = {{tensor.dtype(), tensor.shape()}}, .scope = scope_}));
}

int Graph::add_constant(const Tensor& tensor) {
  constants_.push_back(tensor);
  return static_cast<int>(constants_.size()) - 1;
}

ValueId Graph::append(Node node) {
  node.id = static_cast<int>(nodes_.size());
  nodes_.push_back(std::move(node));
  return {nodes_.back().id, 0};
}

std::vector<Value> Graph::apply_all(std::string_view name, std::span<const Value> inputs, Json attrs, std::shared_ptr<const Graph> body) {
  const OpDef& op = op_named(name);
  const int given = static_cast<int>(inputs.size());
  if (given < op.min_inputs || (op.max_inputs >= 0 && given > op.max_inputs))
    throw Error(ErrorKind::model,
                {.where = scope_,
                 .what = "op '" + std::string(name) + "' has the wrong number of operands",
                 .got = std::to_string(given),
                 .expected = std::to_string(op.min_inputs) + (op.max_inputs < 0 ? " or more" : " to " + std::to_string(op.max_inputs))});
  Node node{.op = &op, .attrs = std::move(attrs), .scope = scope_, .body = std::move(body)};
  for (const Value& value : inputs) {
    assert(!value || &value.graph() == this);
    node.inputs.push_back(value ? value.id() : ValueId{});
  }
  const OperandTypes types(*this, node);
  try {
    check_attributes(op.attributes, node.attrs);
    node.outputs = op.infer(types.call());
  } catch (const Error& error) {
    throw error.within(scope_.empty() ? "op '" + std::string(name) + "'" : scope_ + ": op '" + std::string(name) + "'");
  }
  const int count = static_cast<int>(node.outputs.size());
  const int id = append(std::move(node)).node;
  std::vector<Value> values;
  for (int i = 0; i < count; ++i) values.push_back(Value(this, {id, i}));
  return values;
}

Value Graph::apply(std::string_view op, std::span<const Value> inputs, Json attrs) { return apply_all(op, inputs, std::move(attrs)).at(0); }

Value Graph::apply(std::string_view op, std::initializer_list<Value> inputs, Json attrs) {
  return apply(op, std::span<const Value>(inputs.begin(), inputs.size()), std::move(attrs));
}

void Graph::assign(const std::string& state, Value value) {
  for (const Leaf& known : leaves_) {
    if (known.kind != LeafKind::state || known.name != state) continue;
    if (type(known.value) != value.type())
      throw Error(ErrorKind::model, {.where = scope_,
                                     .what = "state '" + state + "' is assigned a value of another type",
                                     .got = value.type().text(),
                                     .expected = type(known.value).text()});
    assignments_.push_back({state, value.id()});
    return;
  }
  std::vector<std::string> known;
  for (const Leaf& leaf : leaves_)
    if (leaf.kind == LeafKind::state) known.push_back(leaf.name);
  throw Error(ErrorKind::model,
              {.where = scope_, .what = "state '" + state + "' is assigned but does not exist", .hint = nearest_hint(state, known)});
}

void Graph::output(const std::string& name, Value value) { outputs_.push_back({name, value.id()}); }

OperandTypes::OperandTypes(const Graph& graph, const Node& node)
    : attrs_(&node.attrs), body_(node.body.get()), present_(std::make_unique<bool[]>(node.inputs.size() + 1)) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    present_[i] = node.inputs[i].node >= 0;
    types_.push_back(present_[i] ? graph.type(node.inputs[i]) : Type{});
  }
}

}  // namespace perigee
