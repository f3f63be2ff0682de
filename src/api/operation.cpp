// perigee.h: ops by name, at once or recorded. The ops are those of the op table, and what the library computes beside it.
#include <algorithm>
#include <string_view>

#include "src/api/tensor_handles.h"
#include "src/core/known_hint.h"
#include "src/eager/eager.h"
#include "src/eager/einsum.h"
#include "src/eager/window.h"
#include "src/graph/op.h"

namespace perigee {
namespace {

constexpr const char* kFunction = "perigee_op";

// One call, with its operands' numbers (an absent operand's are undefined).
struct Call {
  perigee_context& context;
  std::vector<Array> in;
  const Json& options;
};

constexpr Option kAxis = {"axis", "integer", "0", "below 0 from the end"}, kLine = {"axis", "integer", "-1", "below 0 from the end"};
constexpr Option kDtype = {"dtype", "name", nullptr, "of the result"};
constexpr Option kReal = {"dtype", "name", "f32", "of the result"}, kWhole = {"dtype", "name", "i64", "of the result"};
constexpr Option kShape = {"shape", "list of integers", "[]", "sizes by dimension", {.low = 0}};
constexpr Option kLow = {"low", "number", "0", "the least"}, kHigh = {"high", "number", "1", "above all"};
constexpr Option kMean = {"mean", "number", "0", "of the distribution"}, kDeviation = {"stddev", "number", "1", "standard deviation"};
constexpr Option kLeast = {"low", "integer", "0", "the least"}, kBefore = {"high", "integer", nullptr, "above all"};
constexpr Option kFormula = {"formula", "string", nullptr, "'bij,bjk->bik': the operands' labels, then the result's"};
constexpr Option kCount = {"n", "integer", nullptr, "so many places", {.low = 0}};

constexpr Option kTake[] = {kAxis}, kTakeAlong[] = {kLine}, kCast[] = {kDtype}, kUniform[] = {kShape, kReal, kLow, kHigh},
                 kNormal[] = {kShape, kReal, kMean, kDeviation}, kIntegers[] = {kShape, kWhole, kLeast, kBefore}, kPermutation[] = {kCount},
                 kEinsum[] = {kFormula};

int axis_of(const Call& call, const Option& option) { return perigee::axis_of(attr_int(call.options, option), call.in[0].type()); }

Type type_of(const Call& call, const Option& dtype) {
  return {dtype_from_name(attr_string(call.options, dtype)), Shape(attr_ints(call.options, kShape))};
}

std::vector<Array> rand(const Call& call) {
  const Type type = type_of(call, kReal);
  const double low = attr_number(call.options, kLow), high = attr_number(call.options, kHigh);
  const std::lock_guard lock(call.context.random_mutex);
  return {call.context.random.uniform(type, low, high)};
}

std::vector<Array> randn(const Call& call) {
  const Type type = type_of(call, kReal);
  const double mean = attr_number(call.options, kMean), stddev = attr_number(call.options, kDeviation);
  const std::lock_guard lock(call.context.random_mutex);
  return {call.context.random.normal(type, mean, stddev)};
}

std::vector<Array> randint(const Call& call) {
  const Type type = type_of(call, kWhole);
  const int64_t low = attr_int(call.options, kLeast), high = attr_int(call.options, kBefore);
  if (high <= low)
    throw Error(ErrorKind::usage, {.what = "the range is empty", .got = std::to_string(low) + " to before " + std::to_string(high)});
  const std::lock_guard lock(call.context.random_mutex);
  return {call.context.random.integers(type, low, high - 1)};
}

std::vector<Array> randperm(const Call& call) {
  const int64_t n = attr_int(call.options, kCount);
  const std::lock_guard lock(call.context.random_mutex);
  return {call.context.random.permutation(n)};
}

std::vector<Array> einsum_of(const Call& call) { return {einsum(attr_string(call.options, kFormula), call.in)}; }
std::vector<Array> cast_of(const Call& call) { return {cast(call.in[0], dtype_from_name(attr_string(call.options, kDtype)))}; }
std::vector<Array> take_of(const Call& call) { return {take(call.in[0], axis_of(call, kAxis), call.in[1])}; }
std::vector<Array> take_along_of(const Call& call) { return {take_along(call.in[0], axis_of(call, kLine), call.in[1])}; }
std::vector<Array> nonzero_of(const Call& call) { return {nonzero(call.in[0])}; }
std::vector<Array> masked_select_of(const Call& call) { return {masked_select(call.in[0], call.in[1])}; }
std::vector<Array> masked_assign_to(const Call& call) {
  masked_assign(call.in[0], call.in[1], call.in[2]);
  return {call.in[0]};
}

// An op that the op table lacks, or whose operands the table's op trusts.
struct OwnOp {
  std::string_view name;
  size_t inputs;  // at least
  std::vector<Array> (*run)(const Call&);
  const char* recorded;  // the op of the table that is recorded instead; null: it cannot be
  Schema options = {};
  bool more = false;  // inputs than that
};

constexpr const char* kEinsumName = "einsum";  // recorded as several ops

constexpr OwnOp kOwnOps[] = {
    {"cast", 1, cast_of, "cast", {.options = kCast}},
    {"take", 2, take_of, "gather", {.options = kTake}},
    {"gather", 2, take_of, "gather", {.options = kTake}},
    {"take_along", 2, take_along_of, "take_along", {.options = kTakeAlong}},
    {"nonzero", 1, nonzero_of, nullptr},
    {"masked_select", 2, masked_select_of, nullptr},
    {"einsum", 1, einsum_of, kEinsumName, {.options = kEinsum}, true},
    {"masked_assign", 3, masked_assign_to, nullptr},
    {"rand", 0, rand, nullptr, {.options = kUniform}},
    {"randn", 0, randn, nullptr, {.options = kNormal}},
    {"randint", 0, randint, nullptr, {.options = kIntegers}},
    {"randperm", 0, randperm, nullptr, {.options = kPermutation}},
};

const OwnOp* find_own(std::string_view name) {
  const auto* found = std::find_if(std::begin(kOwnOps), std::end(kOwnOps), [&](const OwnOp& op) { return op.name == name; });
  return found == std::end(kOwnOps) ? nullptr : found;
}

const OpDef& public_op(const std::string& name) {
  std::vector<std::string> known;
  for (const OpDef* op : all_ops()) {
    if (op->internal || op->random) continue;
    if (name == op->name) return *op;
    known.emplace_back(op->name);
  }
  for (const OwnOp& op : kOwnOps) known.emplace_back(op.name);
  throw Error(ErrorKind::usage,
              {.where = kFunction, .what = "there is no op '" + name.substr(0, 100) + "'", .hint = known_hint(name, known, known.size())});
}

Json read_options(const char* options, const std::string& name) {
  if (!options || !*options) return Json::object();
  Json given = Json::parse(options, "options of " + name);
  if (!given.is_object()) misuse(kFunction, "options of '" + name + "' are no object", given.type_name(), "{\"axis\": 1}");
  return given;
}

bool all_numbers(Tensors inputs) {
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const perigee_tensor* t) { return t && t->number; });
}

void check_count(const std::string& name, size_t given, size_t least, int most) {
  if (given < least || (most >= 0 && given > static_cast<size_t>(most)))
    misuse(kFunction, "'" + name + "' takes another number of inputs", std::to_string(given),
           most < 0 ? std::to_string(least) + " or more" : std::to_string(least) + " to " + std::to_string(most));
}

// Operands of an element-wise op: numbers stay numbers where a tensor says what dtype they take.
std::vector<EagerOperand> elementwise_operands(Elementwise op, Tensors inputs) {
  const int arity = elementwise_arity(op);
  check_count(elementwise_name(op), inputs.size(), static_cast<size_t>(arity), arity);
  const bool numbers = all_numbers(inputs);
  std::vector<EagerOperand> operands;
  for (const perigee_tensor* input : inputs) {
    const Array& array = numbers_of(input, kFunction);
    if (input->number && !numbers) operands.push_back({nullptr, *array.view.as<double>()});
    else operands.push_back({&array, 0});
  }
  return operands;
}

// A number among the operands takes the dtype of the first tensor.
std::vector<Array> arrays_of(const std::string& name, Tensors inputs, size_t needed) {
  const auto like = std::find_if(inputs.begin(), inputs.end(), [](const perigee_tensor* t) { return t && !t->number; });
  std::vector<Array> arrays;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] && i < needed) misuse(kFunction, "input " + std::to_string(i) + " of '" + name + "' is null");
    if (!inputs[i]) arrays.emplace_back();
    else if (inputs[i]->number && like != inputs.end()) arrays.push_back(cast(inputs[i]->array, (*like)->array.view.dtype));
    else arrays.push_back(inputs[i]->array);
  }
  return arrays;
}

std::vector<Array> run_table_op(const OpDef& op, std::vector<Array> in, const Json& options) {
  std::vector<Dtype> dtypes;
  for (const Array& each : in) dtypes.push_back(each.defined() ? each.view.dtype : Dtype::boolean);  // the narrowest
  const std::vector<Dtype> wanted = operand_dtypes(op, dtypes);
  std::vector<const Array*> operands;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].defined()) in[i] = cast(in[i], wanted[i]);
    operands.push_back(in[i].defined() ? &in[i] : nullptr);
  }
  return eager_apply(op, operands, options);
}

void check_options(const Schema& schema, const Json& options, const std::string& name) {
  try {
    check_attributes(schema, options);
  } catch (const Error& error) {
    throw error.within(name);
  }
}

std::vector<Array> run_now(perigee_context& context, const std::string& name, Tensors inputs, const Json& options) {
  Elementwise element;
  if (find_elementwise(name, &element)) {
    check_options({}, options, name);
    return {eager_elementwise(element, elementwise_operands(element, inputs))};
  }
  if (const OwnOp* own = find_own(name)) {
    check_count(name, inputs.size(), own->inputs, own->more ? -1 : static_cast<int>(own->inputs));
    check_options(own->options, options, name);
    return own->run({context, arrays_of(name, inputs, own->more ? inputs.size() : own->inputs), options});
  }
  const OpDef& op = public_op(name);
  check_count(name, inputs.size(), static_cast<size_t>(op.min_inputs), op.max_inputs);
  return run_table_op(op, arrays_of(name, inputs, static_cast<size_t>(op.min_inputs)), options);
}

int record_einsum(Recording& recording, Tensors inputs, const Json& options) {
  check_options({.options = kEinsum}, options, kEinsumName);
  std::vector<int> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) misuse(kFunction, "input " + std::to_string(i) + " of 'einsum' is null");
    values.push_back(value_in(recording, *inputs[i]));
  }
  return einsum(recording.open(), attr_string(options, kFormula), values);
}

std::vector<int> record(Recording& recording, const std::string& name, Tensors inputs, const Json& options) {
  if (name == kEinsumName) return {record_einsum(recording, inputs, options)};
  const OwnOp* own = find_own(name);
  if (own && !own->recorded)
    misuse(kFunction, "'" + name + "' cannot be recorded: its result's shape depends on the values, or it is drawn", "",
           "its result, computed outside");
  const char* op = own ? own->recorded : public_op(name).name;
  Elementwise element;
  const OpDef& def = op_named(op);
  check_count(name, inputs.size(), static_cast<size_t>(def.min_inputs), def.max_inputs);
  std::vector<Recorder::Operand> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Recorder::Operand operand;
    if (!inputs[i] && (i < static_cast<size_t>(def.min_inputs) || find_elementwise(op, &element)))
      misuse(kFunction, "input " + std::to_string(i) + " of '" + name + "' is null");
    if (inputs[i] && inputs[i]->number && !inputs[i]->recording) operand.number = *inputs[i]->array.view.as<double>();
    else if (inputs[i]) operand.value = value_in(recording, *inputs[i]);
    operands.push_back(operand);
  }
  return recording.open().apply(op, operands, options);
}

std::shared_ptr<Recording> recording_of(Tensors inputs) {
  for (const perigee_tensor* input : inputs)
    if (input && input->recording) return input->recording;
  return nullptr;
}

void apply(perigee_context& context, const std::string& name, Tensors inputs, const Json& options, std::span<perigee_tensor*> outputs) {
  Elementwise element;
  const bool numbers = all_numbers(inputs) && find_elementwise(name, &element);  // what plain numbers give is one
  const auto recording = recording_of(inputs);
  if (recording) {
    const std::lock_guard lock(recording->mutex);
    const std::vector<int> values = record(*recording, name, inputs, options);
    for (size_t i = 0; i < values.size() && i < outputs.size(); ++i) {
      const bool number = numbers && recording->open().type(values[i]).dtype == Dtype::f64;
      give_value(context.state, recording, values[i], number, &outputs[i]);
    }
    return;
  }
  std::vector<Array> results = run_now(context, name, inputs, options);
  for (size_t i = 0; i < results.size() && i < outputs.size(); ++i) {
    const bool number = numbers && results[i].view.rank == 0 && results[i].view.dtype == Dtype::f64;
    give_tensor(context.state, std::move(results[i]), &outputs[i], number);
  }
}

}  // namespace
}  // namespace perigee

using namespace perigee;

extern "C" {

perigee_status perigee_op(perigee_context* context, const char* name, perigee_tensor* const* inputs, int32_t input_count,
                          const char* options, perigee_tensor** outputs, int32_t output_count) noexcept {
  constexpr int32_t kMostOutputs = 16;
  const bool room = outputs && output_count >= 0 && output_count <= kMostOutputs;
  const std::span<perigee_tensor*> results(outputs, room ? static_cast<size_t>(output_count) : 0);
  std::fill(results.begin(), results.end(), nullptr);
  if (!context) return PERIGEE_USAGE;
  const perigee_status status = guard(*context->state, context->message, [&] {
    require(name && room, kFunction, "name and outputs must not be null, with room for at most 16");
    const Tensors given = tensors_of(inputs, input_count, kFunction);
    apply(*context, name, given, read_options(options, name), results);
  });
  if (status != PERIGEE_OK) take_back(results);
  return status;
}

perigee_status perigee_op_into(perigee_tensor* target, const char* name, perigee_tensor* const* inputs, int32_t input_count) noexcept {
  constexpr const char* kInto = "perigee_op_into";
  if (!target) return PERIGEE_USAGE;
  return guard(*target->context, target->message, [&] {
    require(name != nullptr, kInto, "name must not be null");
    require(!target->recording, kInto, "a recorded value cannot be changed; every op makes a new one");
    Elementwise element;
    if (!find_elementwise(name, &element)) misuse(kInto, "'" + std::string(name).substr(0, 100) + "' is no element-wise op");
    eager_elementwise_into(element, elementwise_operands(element, tensors_of(inputs, input_count, kInto)), target->array);
  });
}

perigee_status perigee_seed(perigee_context* context, uint64_t seed) noexcept {
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    const std::lock_guard lock(context->random_mutex);
    context->random.seed(seed);
  });
}
}
