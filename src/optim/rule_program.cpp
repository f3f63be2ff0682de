#include "src/optim/rule_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "kernels/ref/elementwise_math.h"

namespace perigee {
namespace {

constexpr size_t kMostOps = 500, kMostScalars = 512, kMostName = 64;
constexpr double kMostNumber = 1e30;
constexpr const char* kNumbers[] = {"lr", "t", "step", "epoch", "progress"};
constexpr uint8_t kGradient = kFusedTemporaryBase;         // the register of the gradient as the rule sees it
constexpr int kFullInstructions = 10, kFullConstants = 6;  // of what happens to the gradient first, and of decay
constexpr int kMostBody = kFusedInstructions - kFullInstructions;

// Those whose result IEEE 754 fixes to the last bit.
constexpr Elementwise kOps[] = {
    Elementwise::add,        Elementwise::sub,         Elementwise::mul,     Elementwise::div,           Elementwise::sqrt,
    Elementwise::neg,        Elementwise::abs,         Elementwise::sign,    Elementwise::square,        Elementwise::reciprocal,
    Elementwise::relu,       Elementwise::maximum,     Elementwise::minimum, Elementwise::equal,         Elementwise::not_equal,
    Elementwise::less,       Elementwise::less_equal,  Elementwise::greater, Elementwise::greater_equal, Elementwise::logical_and,
    Elementwise::logical_or, Elementwise::logical_not, Elementwise::where,
};
constexpr Elementwise kOfNumbers[] = {Elementwise::pow, Elementwise::exp, Elementwise::log,  Elementwise::floor,
                                      Elementwise::sin, Elementwise::cos, Elementwise::tanh, Elementwise::sigmoid};

bool is_trace_name(const std::string& name) {
  return name.size() > 1 && name[0] == 't' && std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<std::string> rule_ops() {
  std::vector<std::string> names;
  for (const Elementwise op : kOps) names.emplace_back(elementwise_name(op));
  return names;
}

class RuleCompiler {
 public:
  RuleCompiler(RuleProgram& to, const Config& rule) : to_(to), rule_(rule) {}

  void run(bool full) {
    for (const char* name : kNumbers) names_[name] = add_scalar({});
    names_["parameter"] = {Kind::input, 0};
    names_["gradient"] = {Kind::gradient, 0};
    read_states();
    const Json* program = rule_.raw("program");
    if (!program || !program->is_array()) rule_.fail("program", "is missing", "", "a list of ops");
    const Json::Array& ops = program->as_array();
    if (ops.size() > kMostOps)
      rule_.fail("program", "is too long", std::to_string(ops.size()) + " ops", "at most " + std::to_string(kMostOps));
    for (size_t i = 0; i < ops.size(); ++i) step(rule_.element(ops[i], "op " + std::to_string(i + 1)));
    const Config outputs = rule_.object("outputs");
    std::vector<Value> results{named(outputs, outputs.string("parameter"))};
    for (const std::string& state : to_.states_) results.push_back(named(outputs, outputs.string(state, state)));
    outputs.reject_unread();
    emit(std::move(results), full);
  }

 private:
  enum class Kind : uint8_t { scalar, input, gradient, op };
  struct Value {
    Kind kind = Kind::scalar;
    int index = 0;
  };
  struct Op {
    Elementwise op;
    std::vector<Value> sources;
    int last_use = -1;  // of the op that reads it last
  };

  void read_states() {
    const Json* given = rule_.raw("state");
    if (!given || given->is_null()) return;
    constexpr size_t kMost = kFusedOutputs - 1;
    if (given->is_object() && given->as_object().size() > kMost)
      rule_.fail("state", "has too many names", std::to_string(given->as_object().size()), "at most " + std::to_string(kMost));
    for (const auto& [name, value] : given->as_object()) {
      const bool plain = !name.empty() && name.size() <= kMostName && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      });
      if (!plain || is_trace_name(name) || names_.contains(name))
        rule_.fail("state", plain ? "has a name that a rule has already" : "has a name of other than letters, digits and _",
                   "'" + name.substr(0, kMostName) + "'", "another name");
      if (!value.is_number() || !(std::fabs(value.as_number()) <= kMostNumber))
        rule_.fail("state", "begins with no number", name + " = " + value.dump(), "a number from -1e30 to 1e30");
      names_[name] = {Kind::input, static_cast<int>(2 + to_.states_.size())};
      to_.states_.push_back(name);
      to_.initial_.push_back(value.as_number());
    }
  }

  Value add_scalar(const RuleProgram::Scalar& scalar) {
    to_.scalars_.push_back(scalar);
    return {Kind::scalar, static_cast<int>(to_.scalars_.size() - 1)};
  }

  Value number(const Config& op, double value) {
    if (!(std::fabs(value) <= kMostNumber)) op.fail("in", "has a number out of range", Json(value).dump(), "from -1e30 to 1e30");
    for (size_t i = std::size(kNumbers); i < to_.scalars_.size(); ++i)
      if (!to_.scalars_[i].computed && to_.scalars_[i].value == value) return {Kind::scalar, static_cast<int>(i)};
    return add_scalar({.value = value});
  }

  Value named(const Config& where, const std::string& name) const {
    if (const auto found = names_.find(name); found != names_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [each, value] : names_) known.push_back(each);
    throw Error(ErrorKind::model, {.where = where.where(),
                                   .what = "there is no value '" + name.substr(0, kMostName) + "' at this point of the rule",
                                   .hint = nearest_hint(name, known)});
  }

  static Elementwise op_named(const Config& op, bool of_numbers) {
    const std::string name = op.string("op");
    for (const Elementwise known : kOps)
      if (name == elementwise_name(known)) return known;
    for (const Elementwise known : kOfNumbers) {
      if (name != elementwise_name(known)) continue;
      if (of_numbers) return known;
      op.fail("op", "is for the numbers of an update", name + " of parameters", "arithmetic, sqrt, comparisons, where",
              "as in beta ^ now.t; every machine must compute the same bits of a parameter");
    }
    op.fail("op", "cannot be used in a rule", "'" + name.substr(0, kMostName) + "'", "arithmetic, sqrt, comparisons, where",
            nearest_hint(name, rule_ops()));
  }

  // x ^ 2, x ^ 0.5 and x ^ -1 are arithmetic.
  std::optional<Elementwise> plain_power(const Config& op, std::vector<Value>* sources) const {
    if (op.string("op") != elementwise_name(Elementwise::pow) || sources->size() != 2 || (*sources)[1].kind != Kind::scalar) return {};
    const RuleProgram::Scalar& exponent = to_.scalars_[static_cast<size_t>((*sources)[1].index)];
    const bool fixed = !exponent.computed && static_cast<size_t>((*sources)[1].index) >= std::size(kNumbers);
    constexpr std::pair<double, Elementwise> kPlain[] = {{2, Elementwise::square}, {0.5, Elementwise::sqrt}, {-1, Elementwise::reciprocal}};
    for (const auto& [value, same] : kPlain)
      if (fixed && exponent.value == value) return sources->pop_back(), std::optional(same);
    return {};
  }

  void step(const Config& op) {
    if (to_.scalars_.size() + 4 > kMostScalars) op.fail("in", "is one number too many", "", "at most " + std::to_string(kMostScalars));
    const Json* in = op.raw("in");
    if (!in || !in->is_array() || in->as_array().empty() || in->as_array().size() > 3)
      op.fail("in", "does not fit the op", in ? in->dump().substr(0, 60) : "", "a list of names or numbers");
    std::vector<Value> sources;
    for (const Json& item : in->as_array()) {
      if (item.is_string()) sources.push_back(named(op, item.as_string()));
      else if (item.is_number()) sources.push_back(number(op, item.as_number()));
      else op.fail("in", "must be a list of names or numbers", item.type_name());
    }
    const bool of_numbers = std::ranges::all_of(sources, [](Value v) { return v.kind == Kind::scalar; });
    const std::optional<Elementwise> power = of_numbers ? std::nullopt : plain_power(op, &sources);
    const Elementwise code = power ? *power : op_named(op, of_numbers);
    if (static_cast<size_t>(elementwise_arity(code)) != sources.size())
      op.fail("in", "does not fit the op", std::to_string(sources.size()) + " operands", std::to_string(elementwise_arity(code)));
    const std::string out = op.string("out");
    op.raw("attrs");
    op.reject_unread();
    Value value;
    if (of_numbers) {
      RuleProgram::Scalar scalar{.computed = true, .op = code};
      for (size_t i = 0; i < sources.size(); ++i) scalar.sources[i] = static_cast<uint16_t>(sources[i].index);
      value = add_scalar(scalar);
    } else {
      ops_.push_back({code, std::move(sources)});
      value = {Kind::op, static_cast<int>(ops_.size() - 1)};
    }
    if (!names_.emplace(out, value).second) op.fail("out", "names a value for the second time", "'" + out.substr(0, kMostName) + "'");
  }

  // Ops that the outputs need, in order; each result lives in a temporary until it was read for the last time. An output is an op's result:
  // memory of an input may be written before another output has read it.
  void emit(std::vector<Value> outputs, bool full) {
    for (Value& value : outputs)
      if (value.kind != Kind::op) {
        ops_.push_back({Elementwise::minimum, {value, value}});
        value = {Kind::op, static_cast<int>(ops_.size() - 1)};
      }
    const int end = static_cast<int>(ops_.size());
    for (const Value& value : outputs) ops_[static_cast<size_t>(value.index)].last_use = end;
    for (int i = end - 1; i >= 0; --i) {
      if (ops_[static_cast<size_t>(i)].last_use < 0) continue;
      for (const Value& operand : ops_[static_cast<size_t>(i)].sources)
        if (operand.kind == Kind::op) {
          int& last = ops_[static_cast<size_t>(operand.index)].last_use;
          last = std::max(last, i);
        }
    }
    FusedParams& code = to_.body_;
    code.n_inputs = static_cast<uint8_t>(2 + to_.states_.size());
    for (int t = kFusedTemporaries - 1; t > 0; --t) free_.push_back(static_cast<uint8_t>(kFusedTemporaryBase + t));
    place_.resize(ops_.size());
    for (int i = 0; i < end; ++i)
      if (ops_[static_cast<size_t>(i)].last_use >= 0) emit_op(i);
    for (const Value& value : outputs) code.outputs[code.n_outputs++] = place_[static_cast<size_t>(value.index)];
    const int most = kFusedConstants - (full ? kFullConstants : 1);
    if (static_cast<int>(to_.constants_.size()) > most) too_large("numbers beside the parameters", most);
  }

  void emit_op(int i) {
    const Op& op = ops_[static_cast<size_t>(i)];
    FusedParams& code = to_.body_;
    if (code.n_instructions == kMostBody) too_large("ops on the parameters", kMostBody);
    FusedInstruction& instruction = code.code[code.n_instructions++];
    instruction = {op.op, 0, {}};
    std::vector<int> ended;
    for (size_t s = 0; s < op.sources.size(); ++s) {
      const Value& operand = op.sources[s];
      instruction.sources[s] = operand.kind == Kind::input      ? static_cast<uint8_t>(operand.index)
                               : operand.kind == Kind::gradient ? kGradient
                               : operand.kind == Kind::op       ? place_[static_cast<size_t>(operand.index)]
                                                                : constant(operand.index);
      if (operand.kind != Kind::op || ops_[static_cast<size_t>(operand.index)].last_use != i) continue;
      if (std::find(ended.begin(), ended.end(), operand.index) == ended.end()) ended.push_back(operand.index);
    }
    for (const int operand : ended) free_.push_back(place_[static_cast<size_t>(operand)]);
    if (free_.empty()) too_large("results at once", kFusedTemporaries - 1);
    instruction.target = place_[static_cast<size_t>(i)] = free_.back();
    free_.pop_back();
  }

  uint8_t constant(int scalar) {
    auto& constants = to_.constants_;
    auto found = std::find(constants.begin(), constants.end(), static_cast<uint16_t>(scalar));
    if (found == constants.end()) {
      if (constants.size() == kFusedConstants) too_large("numbers beside the parameters", kFusedConstants - 1);
      found = constants.insert(constants.end(), static_cast<uint16_t>(scalar));
    }
    return static_cast<uint8_t>(kFusedConstantBase + (found - constants.begin()));
  }

  [[noreturn]] void too_large(const std::string& what, int most) const {
    rule_.fail("program", "needs too many " + what, "", "at most " + std::to_string(most));
  }

  RuleProgram& to_;
  const Config& rule_;
  std::map<std::string, Value> names_;
  std::vector<Op> ops_;
  std::vector<uint8_t> free_, place_;
};

RuleProgram::RuleProgram(const Config& rule, bool full) { RuleCompiler(*this, rule).run(full); }

void RuleProgram::make(const RuleNumbers& numbers, const UpdateParams& how, FusedParams* code) const {
  double values[kMostScalars] = {numbers.lr, numbers.t, numbers.step, numbers.epoch, numbers.progress};
  for (size_t i = std::size(kNumbers); i < scalars_.size(); ++i) {
    const Scalar& scalar = scalars_[i];
    values[i] = scalar.computed
                    ? evaluate<double>(scalar.op, values[scalar.sources[0]], values[scalar.sources[1]], values[scalar.sources[2]])
                    : scalar.value;
  }
  *code = body_;
  uint8_t constants = 0, instructions = 0;
  const auto add_constant = [&](double value) {
    code->constants[constants] = value;
    return static_cast<uint8_t>(kFusedConstantBase + constants++);
  };
  const auto add = [&](Elementwise op, uint8_t target, uint8_t a, uint8_t b) { code->code[instructions++] = {op, target, {a, b}}; };
  for (const uint16_t scalar : constants_) add_constant(values[scalar]);
  constexpr uint8_t kFree = kGradient + 1;
  add(Elementwise::mul, kGradient, 1, add_constant(how.gradient_scale));
  if (how.clip_value > 0) {
    add(Elementwise::minimum, kGradient, kGradient, add_constant(how.clip_value));
    add(Elementwise::maximum, kGradient, kGradient, add_constant(-how.clip_value));
  }
  if (how.l2 != 0) {
    add(Elementwise::mul, kFree, 0, add_constant(how.l2));
    add(Elementwise::add, kGradient, kGradient, kFree);
  }
  if (how.l1 != 0) {
    add(Elementwise::sign, kFree, 0, 0);
    add(Elementwise::mul, kFree, kFree, add_constant(how.l1));
    add(Elementwise::add, kGradient, kGradient, kFree);
  }
  std::copy_n(body_.code, body_.n_instructions, code->code + instructions);
  instructions = static_cast<uint8_t>(instructions + body_.n_instructions);
  if (how.decay != 0) {
    add(Elementwise::mul, kGradient, 0, add_constant(how.decay));
    add(Elementwise::sub, code->outputs[0], code->outputs[0], kGradient);
  }
  code->n_instructions = instructions;
  code->n_constants = constants;
}

}  // namespace perigee
