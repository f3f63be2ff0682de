// A traced function as data, run on values of a graph: the ops that a Lua function did to its arguments, in order. Layers (pg.lambda) and
// losses of one's own are such programs. A program may come from anywhere: names, counts, sizes and ops are checked as they come.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/graph/graph.h"

namespace perigee {

class ScanBody;

// {"inputs": names, "program": [{"op", "in", "out", "attrs"}, ...], "outputs": names}. An operand is a name, a number or a size. `op` is one
// of the graph's, a form (program_forms.h), "full" {value}, "constant" {shape, values, dtype} or "scan" (program_scan.cpp). Wherever a number stands, a size may: {"size":
// name, "axis": 1}, or {"add" | "sub" | "mul" | "div" | "pow": [a, b]} of sizes and numbers; {"shape": name} is the list of all sizes.
class Program {
 public:
  // `real`: the dtype of floating-point constants.
  Program(Graph& graph, Dtype real) : graph_(graph), real_(real) {}

  void define(const std::string& name, Value value, const std::string& where);  // Error(model) when the name is taken
  void run(const Config& options);                                              // its "program"
  Value value(const std::string& name, const std::string& where) const;         // Error(model) with the nearest known name
  // `attrs`, which belong to `op`, with numbers in the place of sizes.
  Json resolved(const Json& attrs, const Config& op, int depth = 0) const;

 private:
  // A program for one step of a loop in another one, whose values it may name.
  Program(ScanBody& body, const Program& around);

  void step(const Config& op);
  std::vector<Value> results(const Config& op, const std::string& name, const Json& attrs);
  std::vector<Value> scan(const Config& op, const Json& attrs);
  std::vector<Value> operands(const Config& op);
  std::vector<Value> promoted(const std::string& op, std::vector<Value> values, std::span<const std::optional<double>> numbers) const;
  Value number(double value) const;
  Value table(const Config& attrs) const;
  double size(const Json& expression, const Config& op, bool value, int depth) const;

  Graph& graph_;
  Dtype real_;
  ScanBody* body_ = nullptr;
  const Program* around_ = nullptr;
  int depth_ = 0;  // loops around it
  std::map<std::string, Value> values_;
};

}  // namespace perigee
