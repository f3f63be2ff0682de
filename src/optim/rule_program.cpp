#include "src/optim/rule_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace perigee {
namespace {

constexpr size_t kMostOps = 500, kMostNumbers = 512;
constexpr double kMostStart = 1e30;
constexpr const char* kNumbers[] = {"lr", "t", "step", "epoch", "progress"};
constexpr uint8_t kGradient = kFusedTemporaryBase;         // the register of the gradient as the rule sees it
constexpr int kFullInstructions = 10, kFullConstants = 6;  // of what happens to the gradient first, and of decay

constexpr Elementwise kOfNumbers[] = {Elementwise::pow, Elementwise::exp, Elementwise::log,  Elementwise::floor,
                                      Elementwise::sin, Elementwise::cos, Elementwise::tanh, Elementwise::sigmoid};

}  // namespace

std::vector<std::string> rule_ops() {
  std::vector<std::string> names;
  for (const Elementwise op : exact_ops()) names.emplace_back(elementwise_name(op));
  return names;
}

class RuleCompiler {
 public:
  RuleCompiler(RuleProgram& to, const Config& rule, bool full)
      : to_(to),
        rule_(rule),
        compiler_(rule, &to.numbers_, {.instructions = kFullInstructions, .constants = full ? kFullConstants : 1, .temporaries = 1}) {}

  void run() {
    for (size_t i = 0; i < std::size(kNumbers); ++i) names_[kNumbers[i]] = {Kind::number, static_cast<int>(i)};
    names_["parameter"] = {Kind::input, 0};
    names_["gradient"] = {Kind::input, kGradient};
    read_states();
    const Json* program = rule_.raw("program");
    if (!program || !program->is_array()) rule_.fail("program", "is missing", "", "a list of ops");
    const Json::Array& ops = program->as_array();
    if (ops.size() > kMostOps)
      rule_.fail("program", "is too long", std::to_string(ops.size()) + " ops", "at most " + std::to_string(kMostOps));
    for (size_t i = 0; i < ops.size(); ++i) step(rule_.element(ops[i], "op " + std::to_string(i + 1)));
    const Config outputs = rule_.object("outputs");
    std::vector<ProgramValue> results{named(outputs, outputs.string("parameter"))};
    for (const std::string& state : to_.states_) results.push_back(named(outputs, outputs.string(state, state)));
    outputs.reject_unread();
    to_.body_.n_inputs = static_cast<uint8_t>(2 + to_.states_.size());
    compiler_.emit(std::move(results), &to_.body_, &to_.constants_);
  }

 private:
  using Kind = ProgramValue::Kind;

  void read_states() {
    const Json* given = rule_.raw("state");
    if (!given || given->is_null()) return;
    constexpr size_t kMost = kFusedOutputs - 1;
    if (given->is_object() && given->as_object().size() > kMost)
      rule_.fail("state", "has too many names", std::to_string(given->as_object().size()), "at most " + std::to_string(kMost));
    for (const auto& [name, value] : given->as_object()) {
      const bool plain = is_program_name(name);
      if (!plain || is_trace_name(name) || names_.contains(name))
        rule_.fail("state", plain ? "has a name that a rule has already" : "has a name of other than letters, digits and _",
                   "'" + name.substr(0, kMaxProgramName) + "'", "another name");
      if (!value.is_number() || !(std::fabs(value.as_number()) <= kMostStart))
        rule_.fail("state", "begins with no number", name + " = " + value.dump(), "a number from -1e30 to 1e30");
      names_[name] = {Kind::input, static_cast<int>(2 + to_.states_.size())};
      to_.states_.push_back(name);
      to_.initial_.push_back(value.as_number());
    }
  }

  ProgramValue named(const Config& where, const std::string& name) const {
    if (const auto found = names_.find(name); found != names_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [each, value] : names_) known.push_back(each);
    throw Error(ErrorKind::model, {.where = where.where(),
                                   .what = "there is no value '" + name.substr(0, kMaxProgramName) + "' at this point of the rule",
                                   .hint = nearest_hint(name, known)});
  }

  static Elementwise op_named(const Config& op, bool of_numbers) {
    const std::string name = op.string("op");
    for (const Elementwise known : exact_ops())
      if (name == elementwise_name(known)) return known;
    for (const Elementwise known : kOfNumbers) {
      if (name != elementwise_name(known)) continue;
      if (of_numbers) return known;
      op.fail("op", "is for the numbers of an update", name + " of parameters", "arithmetic, sqrt, comparisons, where",
              "as in beta ^ now.t; every machine must compute the same bits of a parameter");
    }
    op.fail("op", "cannot be used in a rule", "'" + name.substr(0, kMaxProgramName) + "'", "arithmetic, sqrt, comparisons, where",
            nearest_hint(name, rule_ops()));
  }

  // x ^ 2, x ^ 0.5 and x ^ -1 are arithmetic.
  std::optional<Elementwise> plain_power(const Config& op, std::vector<ProgramValue>* sources) const {
    if (op.string("op") != elementwise_name(Elementwise::pow) || sources->size() != 2) return {};
    constexpr std::pair<double, Elementwise> kPlain[] = {{2, Elementwise::square}, {0.5, Elementwise::sqrt}, {-1, Elementwise::reciprocal}};
    for (const auto& [value, same] : kPlain)
      if (to_.numbers_.is_constant((*sources)[1], value)) return sources->pop_back(), std::optional(same);
    return {};
  }

  void step(const Config& op) {
    if (to_.numbers_.size() + 4 > kMostNumbers) op.fail("in", "is one number too many", "", "at most " + std::to_string(kMostNumbers));
    std::vector<ProgramValue> sources = compiler_.operands(op, [&](const std::string& name) { return named(op, name); });
    const bool of_numbers = std::ranges::all_of(sources, [](ProgramValue v) { return v.kind == Kind::number; });
    const std::optional<Elementwise> power = of_numbers ? std::nullopt : plain_power(op, &sources);
    const Elementwise code = power ? *power : op_named(op, of_numbers);
    if (static_cast<size_t>(elementwise_arity(code)) != sources.size())
      op.fail("in", "does not fit the op", std::to_string(sources.size()) + " operands", std::to_string(elementwise_arity(code)));
    const std::string out = op.string("out");
    op.raw("attrs");
    op.reject_unread();
    if (!names_.emplace(out, compiler_.add(code, std::move(sources))).second)
      op.fail("out", "names a value for the second time", "'" + out.substr(0, kMaxProgramName) + "'");
  }

  RuleProgram& to_;
  const Config& rule_;
  FusedCompiler compiler_;
  std::map<std::string, ProgramValue> names_;
};

RuleProgram::RuleProgram(const Config& rule, bool full) : numbers_(std::size(kNumbers)) { RuleCompiler(*this, rule, full).run(); }

void RuleProgram::make(const RuleNumbers& numbers, const UpdateParams& how, FusedParams* code) const {
  double values[kMostNumbers] = {numbers.lr, numbers.t, numbers.step, numbers.epoch, numbers.progress};
  numbers_.evaluate(values);
  *code = body_;
  uint8_t constants = 0, instructions = 0;
  const auto add_constant = [&](double value) {
    code->constants[constants] = value;
    return static_cast<uint8_t>(kFusedConstantBase + constants++);
  };
  const auto add = [&](Elementwise op, uint8_t target, uint8_t a, uint8_t b) { code->code[instructions++] = {op, target, {a, b}}; };
  for (const uint16_t number : constants_) add_constant(values[number]);
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
