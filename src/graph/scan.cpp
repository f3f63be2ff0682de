#include "src/graph/scan.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "kernels/dtype_kinds.h"
#include "src/core/error.h"
#include "src/graph/autodiff.h"
#include "src/graph/build.h"
#include "src/graph/op.h"
#include "src/graph/passes/passes.h"
#include "src/graph/passes/rewrite.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

Sliced sliced_of(Value value) {
  return analyze_slices(value.graph()).values[static_cast<size_t>(value.id().node)][static_cast<size_t>(value.id().output)];
}

Type of_step(const Type& type) {
  std::vector<int64_t> dims = type.shape.vector();
  dims.erase(dims.begin() + 1);
  return {type.dtype, Shape(dims)};
}

// Places [from, to) of dimension `axis`.
Value scan_part(Value x, int axis, int64_t from, int64_t to) {
  std::vector<int64_t> start(static_cast<size_t>(x.rank()), 0), stop = x.shape().vector();
  start[static_cast<size_t>(axis)] = from;
  stop[static_cast<size_t>(axis)] = to;
  return slice(x, start, stop);
}

Value joined(Value a, Value b) { return concatenate(std::array{a, b}, 1); }

// Dimension 1, [T] as [T / k, k] or the other way round.
Value in_segments(Value x, int64_t k) {
  std::vector<int64_t> dims = x.shape().vector();
  dims[1] /= k;
  dims.insert(dims.begin() + 2, k);
  return reshape(x, Shape(dims));
}
Value in_one(Value x) {
  std::vector<int64_t> dims = x.shape().vector();
  dims[1] *= dims[2];
  dims.erase(dims.begin() + 2);
  return reshape(x, Shape(dims));
}

// A value that all examples share, for each of the examples of `like`.
Value by_example(Value value, Value like) {
  std::vector<int64_t> start(static_cast<size_t>(like.rank()), 0), stop(start.size(), 1), dims = value.shape().vector();
  stop[0] = like.shape()[0];
  std::vector<int64_t> ones(static_cast<size_t>(value.rank()) + 1, 1);
  ones[0] = stop[0];
  const Value first = slice(like, start, stop);
  const Value none = reshape(cast(zeros_like(first), value.dtype()), Shape(ones));
  dims.insert(dims.begin(), 1);
  return none + reshape(value, Shape(dims));
}

struct Loop {
  std::vector<Value> carries, steps, fixed, weights;
  int64_t length = 0;
  bool reverse = false;
  int results = 0;
};

std::vector<Value> scan_append(Graph& graph, const Loop& loop, std::shared_ptr<const Graph> body) {
  std::vector<Value> operands;
  for (const auto* list : {&loop.carries, &loop.steps, &loop.fixed, &loop.weights})
    operands.insert(operands.end(), list->begin(), list->end());
  const auto size = [](const std::vector<Value>& list) { return static_cast<int64_t>(list.size()); };
  return graph.apply_all("scan", operands,
                         Json(Json::Object{{"carries", size(loop.carries)},
                                           {"steps", size(loop.steps)},
                                           {"fixed", size(loop.fixed)},
                                           {"results", loop.results},
                                           {"length", loop.length},
                                           {"reverse", loop.reverse}}),
                         std::move(body));
}

ScanResults run_over(Graph& graph, const Loop& loop, std::shared_ptr<const Graph> body) {
  const std::vector<Value> made = scan_append(graph, loop, std::move(body));
  const auto carries = static_cast<std::ptrdiff_t>(loop.carries.size());
  return {{made.begin(), made.begin() + carries}, {made.begin() + carries, made.begin() + carries + loop.results}};
}

// A loop over segments of k steps, whose body is a loop over the steps of one: only what is carried from segment to segment is kept, and the
// gradient of a segment computes its steps once more.
ScanResults run_over_segments(Graph& graph, Loop loop, const std::shared_ptr<const Graph>& body, int64_t k) {
  auto outer = std::make_shared<Graph>();
  Loop inner{.length = k, .reverse = loop.reverse, .results = loop.results};
  const auto leaves = [&](const std::vector<Value>& values, const char* letter, auto type_of, std::vector<Value>& list) {
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string name = letter + std::to_string(i);
      list.push_back(*letter == 'w' ? outer->parameter(name, type_of(values[i])) : outer->input(name, type_of(values[i])));
    }
  };
  const auto same = [](Value value) { return value.type(); };
  for (Value& sequence : loop.steps) sequence = in_segments(sequence, k);
  leaves(loop.carries, "c", same, inner.carries);
  leaves(
      loop.steps, "x", [](Value value) { return of_step(value.type()); }, inner.steps);
  leaves(loop.fixed, "f", same, inner.fixed);
  leaves(loop.weights, "w", same, inner.weights);
  const ScanResults segment = run_over(*outer, inner, body);
  for (size_t i = 0; i < segment.carries.size(); ++i) outer->output("c" + std::to_string(i), segment.carries[i]);
  for (size_t i = 0; i < segment.results.size(); ++i) outer->output("y" + std::to_string(i), segment.results[i]);
  loop.length /= k;
  ScanResults all = run_over(graph, loop, outer);
  for (Value& result : all.results) result = in_one(result);
  return all;
}

// The steps that fill segments of `recompute`, and the rest.
ScanResults run_in_segments(Graph& graph, const Loop& loop, const std::shared_ptr<const Graph>& body, int64_t k) {
  const int64_t rest = loop.length % k, whole = loop.length - rest;
  if (rest == 0) return run_over_segments(graph, loop, body, k);
  const auto over = [&](int64_t from, int64_t to, const std::vector<Value>& carries) {
    Loop some = loop;
    some.length = to - from;
    some.carries = carries;
    for (Value& sequence : some.steps) sequence = scan_part(sequence, 1, from, to);
    return to - from == whole ? run_over_segments(graph, some, body, k) : run_over(graph, some, body);
  };
  const ScanResults first = loop.reverse ? over(rest, loop.length, loop.carries) : over(0, whole, loop.carries);
  const ScanResults last = loop.reverse ? over(0, rest, first.carries) : over(whole, loop.length, first.carries);
  ScanResults all{.carries = last.carries};
  for (size_t i = 0; i < first.results.size(); ++i)
    all.results.push_back(loop.reverse ? joined(last.results[i], first.results[i]) : joined(first.results[i], last.results[i]));
  return all;
}

bool draws_by_example(const Node& node) {
  const Json* per = node.attrs.find("per");
  return node.op->random && (per == nullptr || *per == Json("example"));
}

// The body with a sequence more for each draw, which is made in the graph around it, [N, T, ...]: element e of step t is element
// t * elements + e of its example.
Graph draw_outside(const Graph& body, Loop& loop) {
  if (std::ranges::none_of(body.nodes(), draws_by_example)) return Graph(body);
  const Value like = loop.carries.empty() ? loop.steps[0] : loop.carries[0];
  Rewrite rewrite(body);
  for (const Node& node : body.nodes()) {
    rewrite.to().set_scope(node.scope);
    if (!draws_by_example(node)) {
      rewrite.copy(node);
      continue;
    }
    std::vector<int64_t> dims = node.outputs[0].shape.vector();
    dims[0] = loop.length;
    const Value shape = by_example(like.graph().constant(0, {node.outputs[0].dtype, Shape(dims)}), like);
    const Value input = rewrite.to().input("x" + std::to_string(loop.steps.size()), node.outputs[0]);
    loop.steps.push_back(like.graph().apply(node.op->name, {shape}, node.attrs));
    rewrite.set({node.id, 0}, input.id());
  }
  return rewrite.finish();
}

// The body with further results: the values that its gradient reads.
Graph keep_results(const Graph& body, Loop& loop) {
  Graph scratch = Graph(body);
  const auto forward = static_cast<int>(scratch.nodes().size());
  std::vector<Value> roots, seeds, targets;
  for (const NamedValue& output : scratch.outputs())
    if (is_floating(scratch.type(output.value).dtype)) roots.push_back(Value(&scratch, output.value));
  for (const Leaf& leaf : scratch.leaves())
    if (is_floating(scratch.type(leaf.value).dtype)) targets.push_back(Value(&scratch, leaf.value));
  for (size_t i = 0; i < roots.size(); ++i) seeds.push_back(scratch.input("seed" + std::to_string(i), roots[i].type()));
  gradients(scratch, roots, seeds, targets);
  std::set<ValueId> read;
  for (const Node& node : std::span(scratch.nodes()).subspan(static_cast<size_t>(forward)))
    for (const ValueId& id : node.inputs)
      if (id.node >= 0 && id.node < forward) read.insert(id);
  const SliceAnalysis analysis = analyze_slices(body);
  Graph kept = Graph(body);
  for (const ValueId& id : read) {  // copies of one graph number their nodes alike
    const bool by_example = analysis.values[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)] == Sliced::batch;
    const bool known =
        std::ranges::any_of(body.outputs(), [&](const NamedValue& output) { return output.name[0] == 'y' && output.value == id; });
    if (is_leaf(body.node(id)) || !by_example || known) continue;
    kept.output("y" + std::to_string(loop.results++), Value(&kept, id));
  }
  return kept;
}

[[noreturn]] void refuse_scan(const Graph& graph, std::string what, std::string got = "", std::string expected = "",
                              std::string hint = "") {
  throw Error(ErrorKind::model, {.where = graph.scope(),
                                 .what = "scan: " + std::move(what),
                                 .got = std::move(got),
                                 .expected = std::move(expected),
                                 .hint = std::move(hint)});
}

}  // namespace

ValueId body_leaf(const Graph& body, const std::string& name) {
  for (const Leaf& leaf : body.leaves())
    if (leaf.name == name) return leaf.value;
  return {};
}

ValueId body_output(const Graph& body, const std::string& name) {
  for (const NamedValue& output : body.outputs())
    if (output.name == name) return output.value;
  return {};
}

ScanBody::ScanBody(Graph& outer, const ScanOperands& operands) : outer_(outer), operands_(operands), body_(std::make_shared<Graph>()) {
  body_->set_scope(outer.scope());
  for (const Value& sequence : operands_.steps) {
    if (sequence.rank() < 2) refuse_scan(outer_, "a sequence has no steps", sequence.type().text(), "[examples, steps, ...]");
    if (operands_.length == 0) operands_.length = sequence.shape()[1];
    if (sequence.shape()[1] != operands_.length)
      refuse_scan(outer_, "sequences of different lengths", std::to_string(sequence.shape()[1]) + " steps",
                  std::to_string(operands_.length) + ", as the first has");
  }
  if (operands_.length < 1) refuse_scan(outer_, "there is no step", "", "a sequence, or how many steps there are");
  if (operands_.recompute < 0 || operands_.recompute > operands_.length) operands_.recompute = operands_.length;
  Value example;
  for (const auto* list : {&operands_.steps, &operands_.carries})
    for (const Value& value : *list)
      if (!example && value.rank() > 0 && sliced_of(value) == Sliced::batch) example = value;
  if (!example) refuse_scan(outer_, "nothing depends on the examples", "", "a sequence, or a first carried value, of each example");
  for (Value& carry : operands_.carries)
    if (sliced_of(carry) == Sliced::whole) carry = by_example(carry, example);
  for (size_t i = 0; i < operands_.carries.size(); ++i)
    carries_.push_back(body_->input("c" + std::to_string(i), operands_.carries[i].type()));
  for (size_t i = 0; i < operands_.steps.size(); ++i)
    steps_.push_back(body_->input("x" + std::to_string(i), of_step(operands_.steps[i].type())));
}

Value ScanBody::outside(Value value) {
  assert(&value.graph() == &outer_);
  for (const auto& [id, known] : known_)
    if (id == value.id()) return known;
  const bool shared = sliced_of(value) == Sliced::whole;
  std::vector<Value>& list = shared ? weights_ : fixed_;
  const std::string name = (shared ? "w" : "f") + std::to_string(list.size());
  list.push_back(value);
  known_.emplace_back(value.id(), shared ? body_->parameter(name, value.type()) : body_->input(name, value.type()));
  return known_.back().second;
}

void ScanBody::check(const ScanStep& step) const {
  if (step.carries.size() != carries_.size())
    refuse_scan(outer_, "the step carries on another number of values", std::to_string(step.carries.size()),
                std::to_string(carries_.size()));
  const SliceAnalysis analysis = analyze_slices(*body_);
  for (const Node& node : body_->nodes())
    if ((node.op->random && !draws_by_example(node)) || node.op->effects || node.op->collective)
      refuse_scan(outer_, "op '" + std::string(node.op->name) + "' cannot run in a step", "", "",
                  "draw numbers, or normalise, before the loop and read the result step by step");
  const int64_t examples = operands_.carries.empty() ? operands_.steps[0].shape()[0] : operands_.carries[0].shape()[0];
  const auto by_example = [&](Value value) {  // of a step that mixes examples, as the shape has it
    const Sliced sliced = analysis.values[static_cast<size_t>(value.id().node)][static_cast<size_t>(value.id().output)];
    return sliced == Sliced::batch || (sliced == Sliced::mixed && value.rank() > 0 && value.shape()[0] == examples);
  };
  for (size_t i = 0; i < carries_.size(); ++i)
    if (step.carries[i].type() != carries_[i].type() || !by_example(step.carries[i]))
      refuse_scan(outer_, "what the step carries on has another type than what it was given", step.carries[i].type().text(),
                  carries_[i].type().text());
  for (const Value& result : step.results)
    if (!by_example(result))
      refuse_scan(outer_, "a result of the step does not depend on the examples", result.type().text(),
                  "one value or more for each example");
}

ScanResults ScanBody::finish(const ScanStep& step) {
  check(step);
  for (size_t i = 0; i < step.carries.size(); ++i) body_->output("c" + std::to_string(i), step.carries[i]);
  for (size_t i = 0; i < step.results.size(); ++i) body_->output("y" + std::to_string(i), step.results[i]);
  Loop loop{.carries = operands_.carries,
            .steps = operands_.steps,
            .fixed = fixed_,
            .weights = weights_,
            .length = operands_.length,
            .reverse = operands_.reverse,
            .results = static_cast<int>(step.results.size())};
  const int results = loop.results;
  Graph drawn = fuse_forward(draw_outside(*body_, loop));
  if (operands_.keep) drawn = keep_results(drawn, loop);
  const auto body = std::make_shared<const Graph>(std::move(drawn));
  ScanResults made = operands_.recompute > 1 ? run_in_segments(outer_, loop, body, operands_.recompute) : run_over(outer_, loop, body);
  made.results.resize(static_cast<size_t>(results));
  return made;
}

}  // namespace perigee
