// A loop over steps in a program: {"op": "scan", "in": first carried values and sequences, "out": last carried values and sequences of results,
// "attrs": {"carries": 1, "body": {"inputs", "program", "outputs"}}}. The body names what the program around it has made, too.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "src/core/error.h"
#include "src/graph/build.h"
#include "src/graph/scan.h"
#include "src/nn/program.h"

namespace perigee {
namespace {

constexpr int kMostScanDepth = 4;
constexpr int64_t kMostSteps = 1'000'000;

constexpr Option kProgramScanOptions[] = {
    {"carries",
     "integer",
     nullptr,
     "how many of the operands are carried from step to step; the others are sequences",
     {.low = 0, .high = 64}},
    {"length", "integer", "0", "steps, where there are no sequences", {.low = 0, .high = kMostSteps}},
    {"reverse", "boolean", "false", "from the last step to the first"},
    {"recompute", "integer", "0", "keeps what is carried at each so-many-th step alone; 0: at every step", {.low = 0, .high = kMostSteps}},
    {"keep", "boolean", "false", "keeps whatever the gradient reads, so that it computes nothing once more"},
    {"mask", "boolean", "false", "the last operand says which steps count; the others carry on what they were given, and give 0"},
    {"body", "table of options", nullptr,
     "inputs, program and outputs of one step: names for the carried values, then the steps' parts of the sequences"}};
constexpr Schema kSchema{.options = kProgramScanOptions};
constexpr Option kBodyOptions[] = {{"inputs", "list of names", nullptr, "what the step calls its operands"},
                                   {"program", "list of {op, in, out, attrs}", nullptr, "ops in order"},
                                   {"outputs", "list of names", nullptr, "what is carried on, then the step's parts of the results"}};
constexpr Schema kBodySchema{.options = kBodyOptions};

// Programs have the steps last, as all layers of sequences do; loops have them behind the examples.
Value steps_second(Value sequence) {
  std::vector<int64_t> order(static_cast<size_t>(sequence.rank()));
  if (order.size() <= 2) return sequence;
  std::iota(order.begin(), order.end(), -1);
  order[0] = 0, order[1] = sequence.rank() - 1;
  return transpose(sequence, order);
}
Value steps_last(Value sequence) {
  std::vector<int64_t> order(static_cast<size_t>(sequence.rank()));
  std::iota(order.begin(), order.end(), 1);
  order.front() = 0, order.back() = 1;
  return transpose(sequence, order);
}

// [N] in the shape [N, 1, ...] of `rank` dimensions.
Value by_example(Value mask, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[0] = mask.shape()[0];
  return reshape(mask, Shape(dims));
}

void pass_over(const Config& options, ScanBody& body, ScanStep& step) {
  Value mask = body.steps().back();
  if (mask.rank() != 1) options.fail("mask", "is a sequence of one value a step", mask.type().text(), "[examples, steps]");
  if (mask.dtype() != Dtype::boolean) mask = greater(mask, body.graph().constant(0, {mask.dtype(), Shape()}));
  for (size_t i = 0; i < step.carries.size() && i < body.carries().size(); ++i)
    if (step.carries[i].type() == body.carries()[i].type())
      step.carries[i] = where(by_example(mask, step.carries[i].rank()), step.carries[i], body.carries()[i]);
  for (Value& result : step.results)
    if (result.rank() > 0) result = where(by_example(mask, result.rank()), result, body.graph().constant(0, {result.dtype(), Shape()}));
}

}  // namespace

Program::Program(ScanBody& body, const Program& around)
    : graph_(body.graph()), real_(around.real_), body_(&body), around_(&around), depth_(around.depth_ + 1) {}

std::vector<Value> Program::scan(const Config& op, const Json& attrs) {
  const Config options(attrs, kSchema, op.where() + ": scan");
  if (depth_ >= kMostScanDepth) options.fail("body", "is nested too deeply", "", "at most " + std::to_string(kMostScanDepth) + " loops");
  if (options.boolean("keep") && options.integer("recompute") > 0)
    options.fail("keep", "and recompute exclude each other", "both", "one of the two");
  const std::vector<Value> in = operands(op);
  const auto carries = static_cast<size_t>(options.integer("carries"));
  const bool masked = options.boolean("mask");
  if (carries + masked > in.size()) op.fail("in", "has too few operands", std::to_string(in.size()));
  const auto first_step = in.begin() + static_cast<std::ptrdiff_t>(carries);
  std::vector<Value> sequences;
  std::transform(first_step, in.end(), std::back_inserter(sequences), steps_second);
  ScanBody body(graph_, {.carries = {in.begin(), first_step},
                         .steps = sequences,
                         .length = options.integer("length"),
                         .reverse = options.boolean("reverse"),
                         .recompute = options.integer("recompute"),
                         .keep = options.boolean("keep")});
  const Config given(*options.raw("body"), kBodySchema, options.where() + ": body");
  Program step(body, *this);
  const std::vector<std::string> names = given.string_list("inputs");
  const size_t expected = in.size() - masked;
  if (names.size() != expected)
    given.fail("inputs", "are another number than the loop's operands", std::to_string(names.size()), std::to_string(expected));
  for (size_t i = 0; i < names.size(); ++i)
    step.define(names[i], i < carries ? body.carries()[i] : body.steps()[i - carries], given.where());
  step.run(given);
  ScanStep made;
  for (const std::string& name : given.string_list("outputs"))
    (made.carries.size() < carries ? made.carries : made.results).push_back(step.value(name, given.where()));
  if (masked) pass_over(options, body, made);
  const ScanResults results = body.finish(made);
  std::vector<Value> all = results.carries;
  std::transform(results.results.begin(), results.results.end(), std::back_inserter(all), steps_last);
  return all;
}

}  // namespace perigee
