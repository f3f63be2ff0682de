#include "src/optim/fused_program.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref/elementwise_math.h"

namespace perigee {
namespace {

using Kind = ProgramValue::Kind;

constexpr double kMaxNumber = 1e30;  // its square is beyond float32, but no number that means anything is near it

constexpr Elementwise kExactOps[] = {
    Elementwise::add,        Elementwise::sub,         Elementwise::mul,     Elementwise::div,           Elementwise::sqrt,
    Elementwise::neg,        Elementwise::abs,         Elementwise::sign,    Elementwise::square,        Elementwise::reciprocal,
    Elementwise::relu,       Elementwise::maximum,     Elementwise::minimum, Elementwise::equal,         Elementwise::not_equal,
    Elementwise::less,       Elementwise::less_equal,  Elementwise::greater, Elementwise::greater_equal, Elementwise::logical_and,
    Elementwise::logical_or, Elementwise::logical_not, Elementwise::where,
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::span<const Elementwise> exact_ops() { return kExactOps; }

bool is_trace_name(const std::string& name) {
  return name.size() > 1 && name[0] == 't' && std::all_of(name.begin() + 1, name.end(), is_digit);
}

bool is_program_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxProgramName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
  });
}

ProgramValue ProgramNumbers::constant(double value) {
  for (size_t i = given_; i < all_.size(); ++i)
    if (!all_[i].computed && all_[i].value == value && std::signbit(all_[i].value) == std::signbit(value))
      return {Kind::number, static_cast<int>(i)};
  all_.push_back({.value = value});
  return {Kind::number, static_cast<int>(all_.size() - 1)};
}

ProgramValue ProgramNumbers::computed(Elementwise op, const std::vector<ProgramValue>& sources) {
  Number number{.computed = true, .op = op};
  for (size_t i = 0; i < sources.size(); ++i) number.sources[i] = static_cast<uint16_t>(sources[i].index);
  all_.push_back(number);
  return {Kind::number, static_cast<int>(all_.size() - 1)};
}

bool ProgramNumbers::is_constant(ProgramValue number, double value) const {
  const auto i = static_cast<size_t>(number.index);
  return number.kind == Kind::number && i >= given_ && !all_[i].computed && all_[i].value == value;
}

void ProgramNumbers::evaluate(double* values) const {
  for (size_t i = given_; i < all_.size(); ++i) {
    const Number& number = all_[i];
    values[i] = number.computed
                    ? perigee::evaluate<double>(number.op, values[number.sources[0]], values[number.sources[1]], values[number.sources[2]])
                    : number.value;
  }
}

double FusedCompiler::checked(const Config& where, const std::string& key, double value) {
  if (!(std::fabs(value) <= kMaxNumber)) where.fail(key, "is out of range", Json(value).dump(), "a number from -1e30 to 1e30");
  return value;
}

std::vector<ProgramValue> FusedCompiler::operands(const Config& op, const std::function<ProgramValue(const std::string&)>& named) {
  const Json* in = op.raw("in");
  if (!in || !in->is_array() || in->as_array().empty() || in->as_array().size() > 3)
    op.fail("in", "does not fit the op", in ? in->dump().substr(0, 60) : "", "a list of names or numbers");
  std::vector<ProgramValue> values;
  for (const Json& item : in->as_array()) {
    if (item.is_string()) values.push_back(named(item.as_string()));
    else if (item.is_number()) values.push_back(numbers_.constant(checked(op, "in", item.as_number())));
    else op.fail("in", "must be a list of names or numbers", item.type_name());
  }
  return values;
}

ProgramValue FusedCompiler::add(Elementwise op, std::vector<ProgramValue> sources) {
  if (std::all_of(sources.begin(), sources.end(), [](ProgramValue v) { return v.kind == Kind::number; }))
    return numbers_.computed(op, sources);
  ops_.push_back({op, std::move(sources)});
  return {Kind::op, static_cast<int>(ops_.size() - 1)};
}

void FusedCompiler::find_last_uses(const std::vector<ProgramValue>& outputs) {
  const int end = static_cast<int>(ops_.size());
  for (const ProgramValue& value : outputs) ops_[static_cast<size_t>(value.index)].last_use = end;
  for (int i = end - 1; i >= 0; --i) {
    if (ops_[static_cast<size_t>(i)].last_use < 0) continue;
    for (const ProgramValue& operand : ops_[static_cast<size_t>(i)].sources)
      if (operand.kind == Kind::op) {
        int& last = ops_[static_cast<size_t>(operand.index)].last_use;
        last = std::max(last, i);
      }
  }
}

void FusedCompiler::emit(std::vector<ProgramValue> outputs, FusedParams* code, std::vector<uint16_t>* constants) {
  // An output must be an op's result: memory of an input may be written before another output has read it.
  for (ProgramValue& value : outputs)
    if (value.kind != Kind::op) {
      ops_.push_back({Elementwise::minimum, {value, value}});
      value = {Kind::op, static_cast<int>(ops_.size() - 1)};
    }
  find_last_uses(outputs);
  for (int t = kFusedTemporaries - 1; t >= kept_.temporaries; --t) free_.push_back(static_cast<uint8_t>(kFusedTemporaryBase + t));
  place_.resize(ops_.size());
  for (size_t i = 0; i < ops_.size(); ++i)
    if (ops_[i].last_use >= 0) emit_op(static_cast<int>(i), code, constants);
  for (const ProgramValue& value : outputs) code->outputs[code->n_outputs++] = place_[static_cast<size_t>(value.index)];
  code->n_constants = static_cast<uint8_t>(constants->size());
}

// A result lives in a temporary until it was read for the last time.
void FusedCompiler::emit_op(int i, FusedParams* code, std::vector<uint16_t>* constants) {
  const Op& op = ops_[static_cast<size_t>(i)];
  const int most = kFusedInstructions - kept_.instructions;
  if (code->n_instructions == most) too_large("ops on the parameters", most);
  FusedInstruction& instruction = code->code[code->n_instructions++];
  instruction = {op.op, 0, {}};
  std::vector<int> ended;
  for (size_t s = 0; s < op.sources.size(); ++s) {
    const ProgramValue& operand = op.sources[s];
    instruction.sources[s] = operand.kind == Kind::input ? static_cast<uint8_t>(operand.index)
                             : operand.kind == Kind::op  ? place_[static_cast<size_t>(operand.index)]
                                                         : constant(operand.index, constants);
    if (operand.kind != Kind::op || ops_[static_cast<size_t>(operand.index)].last_use != i) continue;
    if (std::find(ended.begin(), ended.end(), operand.index) == ended.end()) ended.push_back(operand.index);
  }
  for (const int operand : ended) free_.push_back(place_[static_cast<size_t>(operand)]);
  if (free_.empty()) too_large("results at once", kFusedTemporaries - kept_.temporaries);
  instruction.target = place_[static_cast<size_t>(i)] = free_.back();
  free_.pop_back();
}

uint8_t FusedCompiler::constant(int number, std::vector<uint16_t>* constants) const {
  auto found = std::find(constants->begin(), constants->end(), static_cast<uint16_t>(number));
  if (found == constants->end()) {
    const int most = kFusedConstants - kept_.constants;
    if (static_cast<int>(constants->size()) == most) too_large("numbers beside the parameters", most);
    found = constants->insert(constants->end(), static_cast<uint16_t>(number));
  }
  return static_cast<uint8_t>(kFusedConstantBase + (found - constants->begin()));
}

void FusedCompiler::too_large(const std::string& what, int most) const {
  where_.fail("program", "needs too many " + what, "", "at most " + std::to_string(most));
}

}  // namespace perigee
