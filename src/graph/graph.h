// The op graph: the one representation of a computation. Layers, losses, traced functions and autodiff append nodes to it;
// a plan is compiled from it. Shapes are concrete; another batch size is another graph.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/json.h"
#include "src/tensor/tensor.h"

namespace perigee {

struct OpDef;
class Graph;

struct ValueId {
  int node = -1;
  int output = 0;
  auto operator<=>(const ValueId&) const = default;
};

// A handle on one output of one node. Empty handles stand for absent optional operands and for "no gradient".
class Value {
 public:
  Value() = default;
  Value(Graph* graph, ValueId id) : graph_(graph), id_(id) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  ValueId id() const { return id_; }
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  Dtype dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }

 private:
  Graph* graph_ = nullptr;
  ValueId id_;
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs;  // node -1: an absent optional operand
  Json attrs;                   // an object, or null
  std::vector<Type> outputs;
  std::string scope;                  // "layer 'conv1' (1 of 6)", for errors and reports
  std::shared_ptr<const Graph> body;  // of a loop (scan.h): what each of its steps computes; else null
  int id = -1;                        // its index in the graph

  // Handles on its operands and results, for VJPs and passes; empty for an absent operand.
  Value in(Graph& graph, size_t i) const;
  Value out(Graph& graph, int i = 0) const;
};

enum class LeafKind { input, parameter, state };

struct Leaf {
  std::string name;
  LeafKind kind;
  ValueId value;
};

// A state's next value, written after the pass that computes it.
struct Assignment {
  std::string state;
  ValueId value;
};

struct NamedValue {
  std::string name;
  ValueId value;
};

class Graph {
 public:
  // Leaves. A second call with a known name of the same kind returns the same value; Error when the type differs.
  Value input(const std::string& name, const Type& type);
  Value parameter(const std::string& name, const Type& type);
  Value state(const std::string& name, const Type& type);
  Value constant(double value, const Type& type);  // filled with one number
  Value constant(const Tensor& tensor);            // small tables; the graph shares the tensor

  // Appends `op` and returns its first output, or all. Throws Error(model) with the scope in front when shapes do not fit.
  Value apply(std::string_view op, std::span<const Value> inputs, Json attrs = {});
  Value apply(std::string_view op, std::initializer_list<Value> inputs, Json attrs = {});
  std::vector<Value> apply_all(std::string_view op, std::span<const Value> inputs, Json attrs = {},
                               std::shared_ptr<const Graph> body = nullptr);

  void assign(const std::string& state, Value value);
  void output(const std::string& name, Value value);

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(ValueId id) const { return nodes_[static_cast<size_t>(id.node)]; }
  const Type& type(ValueId id) const { return node(id).outputs[static_cast<size_t>(id.output)]; }
  const std::vector<Leaf>& leaves() const { return leaves_; }
  const std::vector<Assignment>& assignments() const { return assignments_; }
  const std::vector<NamedValue>& outputs() const { return outputs_; }
  const std::vector<Tensor>& constants() const { return constants_; }

  // Where the nodes appended from now on come from; used in errors.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }

  // For passes: a graph is rewritten by building another one.
  void add_leaf(Leaf leaf) { leaves_.push_back(std::move(leaf)); }
  ValueId append(Node node);
  int add_constant(const Tensor& tensor);

 private:
  Value leaf(LeafKind kind, const std::string& name, const Type& type);

  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
  std::vector<Assignment> assignments_;
  std::vector<NamedValue> outputs_;
  std::vector<Tensor> constants_;
  std::string scope_;
};

}  // namespace perigee
