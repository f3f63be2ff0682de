// A function of tensors while it is being recorded: what is done to its arguments becomes a graph, with the promotions and the
// meaning that eager ops have.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "src/eager/array.h"
#include "src/graph/graph.h"

namespace perigee {

class Recorder {
 public:
  // An operand: a value that this recorder gave, a number, or (neither) an absent one.
  struct Operand {
    std::optional<int> value;
    std::optional<double> number;
  };

  Recorder() : graph_(std::make_unique<Graph>()) {}

  // Each returns the number of a value. Arguments come in order; a number is an f64 scalar that takes the dtype of what it meets.
  int argument(const Type& type, bool number = false);
  // A tensor from outside the function: read anew whenever it runs. The same one gives the same value.
  int capture(const Array& array);
  // All results of an op. Error(model) names op and shapes; Error(resources) beyond 20,000 nodes.
  std::vector<int> apply(std::string_view op, std::span<const Operand> operands, const Json& attrs);
  // d root / d target for each target; zeros where root does not depend on it. Error when root is not one real number.
  std::vector<int> gradients(int root, std::span<const int> targets);

  // Appends the nodes of another graph, with `leaf` in place of its leaves; gives a value for each of its outputs.
  std::vector<int> append(const Graph& graph, const std::function<Value(const Leaf&)>& leaf);
  // A recorded value, of another dtype where it must be.
  Value value_as(int value, Dtype dtype) { return converted({.value = value, .number = {}}, dtype); }

  const Type& type(int value) const { return value_at(value).type(); }
  const Graph& graph() const { return *graph_; }
  Value value_at(int value) const;
  const std::vector<Array>& captures() const { return captures_; }

 private:
  struct Recorded {
    Value value;
    bool number = false;
  };
  int add(Value value, bool number = false);
  Value converted(const Operand& operand, Dtype dtype);
  std::vector<Value> elementwise_operands(std::string_view name, std::span<const Operand> operands, bool* found);
  std::vector<Value> other_operands(const struct OpDef& op, std::span<const Operand> operands);
  bool is_number(const Operand& operand) const;

  std::unique_ptr<Graph> graph_;  // its address stays: values point to it
  std::vector<Recorded> values_;
  std::vector<Array> captures_;
  std::vector<int> capture_values_;
  int leaves_ = 0;
};

// The name of the leaf that stands for argument or capture number `index`; captures have names of their own.
std::string argument_name(int index);
std::string capture_name(int index);

}  // namespace perigee
