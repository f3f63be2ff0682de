// All facts about an op stand in its OpDef: its result types, its vector-Jacobian product as ops, how it behaves when a batch is cut
// into slices, the kernel Params made from its attributes, and what the plan compiler, mixed precision, recomputation and eager calls
// need to know of it. Code outside of ops/ appends ops by name (build.h) and asks for their facts; it never asks for the name
// (tests/rules/op_names.py). How an op is computed is a kernel's business.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "src/core/schema.h"
#include "src/graph/graph.h"

namespace perigee {

enum class CudaLibrary : uint8_t;  // kernels/cuda/library/libraries.h

// How a value relates to the examples of a batch when each thread computes its own slice of them.
enum class Sliced : uint8_t {
  whole,    // the same on every slice (parameters, constants)
  batch,    // dimension 0 counts the slice's examples
  partial,  // a sum over the slice's examples; slices are added up (gradients of parameters)
  mixed,    // none of these: the graph cannot be sliced
};

// An op as it is being appended or compiled.
struct OpCall {
  std::span<const Type> inputs;  // an absent optional operand has rank 0 and present[i] == false
  std::span<const bool> present;
  const Json& attrs;
  const Graph* body = nullptr;  // of a loop
};

// The operand whose whole numbers choose among `count` things, from 0: class labels, indices.
struct ChoosingOperand {
  int operand = -1;  // -1: there is none in this call
  int64_t count = 0;
};

inline constexpr size_t kMaxParamsBytes = 512;

// A value that the plan binds to memory instead of computing it.
enum class LeafOp : uint8_t { none, input, parameter, state, table };

// The dtypes that eager calls and traced functions convert operands to.
enum class OperandDtypes : uint8_t {
  own,      // each operand as it is
  common,   // one dtype for all
  real,     // one dtype for all, f32 or f64
  sums,     // the first: one that a sum does not overflow soon, i64, f32 or f64
  order,    // the first: i32, u8, or as `sums`; numbers are compared and no more
  labels,   // the first real; the second like it, or i64
  indices,  // the last i64, the others as they are
};

// The dtype in which mixed precision computes an op.
enum class Precision : uint8_t {
  full,     // f32
  half,     // 16 bits: tensor cores make up for the conversion of operands
  follows,  // 16 bits where operand 0 has 16 bits; operands in OpDef::parameters stay f32
};

// The number that stands for the elements along an op's attribute `axes`.
enum class Reduces : uint8_t { none, sum, mean };

// The numbers by which a sum multiplies its operands: a - b has 1 and -1. All 0: the op is no such sum.
struct Terms {
  int8_t first = 0, second = 0;
  bool operator==(const Terms&) const = default;
};

// A node that a pass is about to append, for OpDef::simpler.
struct SimplerCall {
  Graph& graph;
  const Node& node;                                // for attributes and results: it and its inputs belong to another graph
  std::span<const ValueId> operands;               // in `graph`; node < 0: absent
  std::span<const std::optional<double>> numbers;  // by operand: what fills it, where that is one number

  const Node& made(size_t i) const { return graph.node(operands[i]); }
  const Type& type(size_t i) const { return graph.type(operands[i]); }
  // Whether operand i has the result's type.
  bool fits(size_t i) const { return operands[i].node >= 0 && type(i) == node.outputs[0]; }
};

// The operand types of a node, in the form that OpDef's functions take.
class OperandTypes {
 public:
  OperandTypes(const Graph& graph, const Node& node);  // the node need not be part of the graph yet; both must outlive this
  OpCall call() const { return {types_, {present_.get(), types_.size()}, *attrs_, body_}; }

 private:
  const Json* attrs_;
  const Graph* body_;
  std::vector<Type> types_;
  std::unique_ptr<bool[]> present_;
};

// A result that may lie where an operand did, which nothing needs afterwards: the host's kernels read each of its elements before they write
// the result's in its place.
struct InPlace {
  int8_t operand = -1, result = -1;  // -1: none
};

struct OpDef {
  const char* name = nullptr;
  const char* doc = nullptr;  // one sentence; operands
  Schema attributes = {};     // any other is refused
  int min_inputs = 1;
  int max_inputs = 1;  // -1: any number

  // Throws Error(model) (where empty; the graph adds the scope) when the operands do not fit.
  std::vector<Type> (*infer)(const OpCall& call) = nullptr;

  // Gradients with respect to each input, given those of each output (empty handle: zero). An empty result handle: none flows.
  // Null: the op is not differentiable (comparisons, arg-reductions, random draws): no gradient flows through it.
  std::vector<Value> (*vjp)(Graph& graph, const Node& node, std::span<const Value> grads) = nullptr;

  // How the outputs are sliced, given how the inputs are. One entry for all outputs.
  Sliced (*sliced)(const OpCall& call, std::span<const Sliced> inputs) = nullptr;
  // For ops whose outputs differ in this (batch norm: results by example, statistics of the whole batch); else null.
  Sliced (*sliced_output)(const OpCall& call, std::span<const Sliced> inputs, int output) = nullptr;

  // Writes the kernel Params (trivially copyable, at most kMaxParamsBytes) and returns their size. Null: none.
  size_t (*params)(const OpCall& call, void* out) = nullptr;

  // Kernels do not refuse a number outside of the range: eager calls, trainers and evaluators look before them. Null: no operand chooses.
  ChoosingOperand (*chooses)(const OpCall& call) = nullptr;

  // Floating-point operations of one call. Null: one per output element.
  double (*flops)(const OpCall& call) = nullptr;

  LeafOp leaf = LeafOp::none;
  // Made by the graph, by gradients or by passes alone: programs and the embedding program may not name it.
  bool internal = false;
  // A gradient as an op. One without a VJP refuses to be differentiated, because leaving it out would be wrong without a word.
  bool derivative = false;
  // Its nodes have a body (scan.h), which plans run as a plan of its own: the op has no kernels.
  bool loop = false;
  // Calls code of the embedding program, which may have effects: it never runs twice.
  bool effects = false;
  // Draws random numbers, which depend on a place in the whole result: rows are not independent.
  bool random = false;
  OperandDtypes operand_dtypes = OperandDtypes::own;
  Precision precision = Precision::full;
  // Bits of the operands that belong to channels or features instead of examples: weights, bias, gamma, beta.
  uint32_t parameters = 0;

  // Every element is the attribute `value`: only shape and dtype of an operand matter.
  bool constant = false;
  // Repeats operand 0.
  bool repeats = false;
  // With the type of operand 0, the result is operand 0.
  bool identity = false;
  // An instruction of `fused`.
  bool instruction = false;
  // Converts the elements of operand 0 to another dtype.
  bool converts = false;
  // The elements of operand 0 in their order under another shape: of two in a row, one will do.
  bool reshapes = false;
  // The dimensions of operand 0 in another order.
  bool permutes = false;
  // A value that equals the first result and costs less; empty: none is known.
  std::optional<ValueId> (*simpler)(const SimplerCall& call) = nullptr;

  // For a - b and the like: a mean of sums is a sum of means.
  Terms terms;
  // Bits of the operands that are multiplied or divided by the others: a mean of x times a number is the number times the mean.
  uint32_t scales = 0;
  Reduces reduces = Reduces::none;
  // Adds slices along the attribute `axis` to zeros, at the places that operand 1 names: few rows of a table's gradient are not zero.
  bool scatters = false;

  // The name by which ops with an attribute `activation` know it; they compute it with their result. Null: they know no such function.
  const char* activation = nullptr;
  // Whether the call is a product by a weight [outputs, inputs], which `linear` computes with bias and activation. Null: it never is.
  bool (*dense)(const OpCall& call) = nullptr;
  // The op that computes this one, a bias, an activation and max-pooling by the attribute `pool`; null: there is none.
  const char* with_pool = nullptr;
  // Pools windows of images: attributes kind, kernel, stride, padding, dilation; the second result says where a maximum stood.
  bool pools = false;
  // The operand that is added to the result before its activation; -1: none is.
  int residual = -1;
  // The ops whose results this one gives, in their order: a dense layer, its cross entropy, and the gradients of both by their operand.
  std::span<const char* const> replaces = {};
  // A gradient that a device's kernels add to another gradient of the same value, which costs less than to add both afterwards.
  bool joins_gradient = false;

  // Exchanges data among the slices of a team while it runs (batch-norm statistics): the plan then runs all slices in step.
  bool collective = false;
  // Steps through a sequence for all examples at once: weights are read once a step, so that a thread's slice is not cut on a CPU.
  bool whole_slice = false;
  // For element-wise ops: output element i depends on element i of the (broadcast) inputs only; any memory order will do.
  bool elementwise = false;
  // For others.
  InPlace in_place;
  // Prefers rank-4 operands in channels-last memory order on CPUs (convolution, pooling, batch norm).
  bool image = false;
  // With `image`: the result has the shape of a weight, and weights stay in canonical order.
  bool gives_weight = false;
  // With `image`: kernels of a device take operands and write results in any memory order.
  bool any_order = false;
  // With `any_order`: bits of the operands that a device does not rearrange; those of the forward op are worth it, gradients are not.
  uint32_t left_in_place = 0;
  // The library that computes the op best on a GPU; without it there is a warning.
  std::optional<CudaLibrary> library;
  // The output is a window on input 0 (reshape, transpose, slice): gives the view instead of a kernel; false when it cannot
  // be a window for these strides, and the plan copies.
  bool (*alias)(const OpCall& call, const View& in, View* out) = nullptr;
};

// The registry: generated from the list of files.
std::span<const OpDef* const> all_ops();
const OpDef* find_op(std::string_view name);   // null when unknown
const OpDef& op_named(std::string_view name);  // Error(model) with the nearest known name

inline bool is_leaf(const Node& node) { return node.op->leaf != LeafOp::none; }
inline bool adds(const Node& node) { return node.op->terms == Terms{1, 1}; }
// Whether the op computes `activation` (OpDef::activation) with its result; false for none and null.
bool takes_activation(const OpDef& op, const char* activation);

// Common slicing rules.
Sliced sliced_elementwise(const OpCall& call, std::span<const Sliced> inputs);         // not linear: partial inputs mix
Sliced sliced_linear_elementwise(const OpCall& call, std::span<const Sliced> inputs);  // add, negate, cast: partial stays partial
Sliced sliced_first_input(const OpCall& call, std::span<const Sliced> inputs);         // row by row over input 0; the others whole
Sliced sliced_never(const OpCall& call, std::span<const Sliced> inputs);               // whole inputs stay whole, all else mixes

// Refuses attributes that the schema does not have, or whose type, range or choice is wrong: Error(model), where empty as of infer.
void check_attributes(const Schema& schema, const Json& attrs);

// An attribute, or its default. Error(model) when the type is wrong, or when it is missing and has no default.
int64_t attr_int(const Json& attrs, const Option& option);
// `axis`, which counts from the end when it is negative, as a place in `type`. Error(model) when it is out of range.
int axis_of(int64_t axis, const Type& type);
double attr_number(const Json& attrs, const Option& option);
bool attr_bool(const Json& attrs, const Option& option);
std::string attr_string(const Json& attrs, const Option& option);
std::vector<int64_t> attr_ints(const Json& attrs, const Option& option);  // a default that is no list of integers: empty

// The same of a node, by name: for passes.
const Option& attribute(const Node& node, std::string_view name);
inline int64_t attr_int(const Node& node, std::string_view name) { return attr_int(node.attrs, attribute(node, name)); }
inline double attr_number(const Node& node, std::string_view name) { return attr_number(node.attrs, attribute(node, name)); }
inline bool attr_bool(const Node& node, std::string_view name) { return attr_bool(node.attrs, attribute(node, name)); }
inline std::string attr_string(const Node& node, std::string_view name) { return attr_string(node.attrs, attribute(node, name)); }
inline std::vector<int64_t> attr_ints(const Node& node, std::string_view name) { return attr_ints(node.attrs, attribute(node, name)); }

Json ints_json(std::span<const int64_t> values);

}  // namespace perigee
