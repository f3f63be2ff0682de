#include "cluster/exchange/outer_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kernels/ref/elementwise_math.h"

namespace perigee {
namespace {

constexpr size_t kMaxOps = 1000;      // of one program, before those without use are left out
constexpr size_t kMaxScalars = 2048;  // of all programs of a policy
constexpr size_t kMaxStates = kFusedOutputs - 1;
constexpr size_t kMaxKnobs = 64;
constexpr size_t kMaxName = 64;
constexpr double kMaxNumber = 1e30;  // its square is beyond float32, but no number that means anything is near it
constexpr const char* kRoundNames[] = {"workers", "progress", "round", "learning_rate", "staleness"};
constexpr const char* kBlockNames[] = {"global", "mean", "delta", "gradient"};

// Those whose result IEEE 754 fixes to the last bit: no library function, and nothing that a compiler may contract.
constexpr Elementwise kOps[] = {
    Elementwise::add,        Elementwise::sub,         Elementwise::mul,     Elementwise::div,           Elementwise::sqrt,
    Elementwise::neg,        Elementwise::abs,         Elementwise::sign,    Elementwise::square,        Elementwise::reciprocal,
    Elementwise::relu,       Elementwise::maximum,     Elementwise::minimum, Elementwise::equal,         Elementwise::not_equal,
    Elementwise::less,       Elementwise::less_equal,  Elementwise::greater, Elementwise::greater_equal, Elementwise::logical_and,
    Elementwise::logical_or, Elementwise::logical_not, Elementwise::where,   Elementwise::floor,
};

Elementwise op_named(const Config& op) {
  const std::string name = op.string("op");
  for (const Elementwise known : kOps)
    if (name == elementwise_name(known)) return known;
  const std::string hint = nearest_hint(name, outer_ops());
  op.fail("op", "cannot be used in an outer step", "'" + name.substr(0, kMaxName) + "'", "arithmetic, sqrt, comparisons, where",
          hint.empty() ? "every machine must compute the same bits, element by element" : hint);
}

bool is_trace_name(const std::string& name) {
  return name.size() > 1 && name[0] == 't' && std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Names that every program may use, and those of a trace's results.
bool is_reserved(const std::string& name) {
  const auto is = [&](const char* other) { return name == other; };
  return std::any_of(std::begin(kRoundNames), std::end(kRoundNames), is) ||
         std::any_of(std::begin(kBlockNames), std::end(kBlockNames), is) || is_trace_name(name);
}

void check_name(const Config& where, const std::string& name) {
  const bool plain = !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!plain || is_reserved(name))
    where.fail(name.substr(0, kMaxName), plain ? "is a name that an outer step has already" : "is no name", "",
               "at most 64 letters, digits and _; not global, mean, workers, t1, ...");
}

}  // namespace

std::vector<std::string> outer_ops() {
  std::vector<std::string> names;
  for (const Elementwise op : kOps) names.emplace_back(elementwise_name(op));
  return names;
}

// Reads programs into two lists, scalars and ops of the block, and makes the kernel's code of what the outputs need.
class OuterCompiler {
 public:
  OuterCompiler(OuterProgram& to, const OuterKnobs& knobs, OuterOf of) : to_(to), knobs_(knobs), of_(of) {
    for (size_t i = 0; i < std::size(kRoundNames); ++i) add_scalar({});
  }

  void run(const Config& source) {
    const size_t states = to_.states_.size();
    if (states > kMaxStates) source.fail("state", "has too many names", std::to_string(states), "at most " + std::to_string(kMaxStates));
    if (knobs_.size() > kMaxKnobs)
      source.fail("program", "has too many knobs", std::to_string(knobs_.size()), "at most " + std::to_string(kMaxKnobs));
    for (const OuterState& state : to_.states_) check_name(source, state.name);
    for (const auto& [name, value] : knobs_) check_name(source, name);

    Names names = round_names();
    names["global"] = {Kind::input, 0};
    if (of_ == OuterOf::gradient) {
      names["gradient"] = {Kind::input, 1};
    } else {
      names["mean"] = {Kind::input, 1};
      names["delta"] = add_op(Elementwise::sub, {names["global"], names["mean"]});
    }
    for (size_t i = 0; i < states; ++i) define(source, names, to_.states_[i].name, {Kind::input, static_cast<int>(2 + i)});
    for (const auto& [name, value] : knobs_) define(source, names, name, knob(source, name, value));
    run_program(source, names);
    const std::vector<Value> results = outputs(source, names);
    for (const auto& [name, value] : knobs_)
      if (!asked_.contains(name)) to_.unused_knobs_.push_back(name);
    emit(source, results);
  }

 private:
  enum class Kind : uint8_t { scalar, input, op };
  struct Value {
    Kind kind = Kind::scalar;
    int index = 0;
  };
  struct Op {
    Elementwise op;
    std::vector<Value> sources;
    int last_use = -1;  // of the op that reads it last
  };
  using Names = std::map<std::string, Value>;

  Value add_scalar(const OuterProgram::Scalar& scalar) {
    to_.scalars_.push_back(scalar);
    return {Kind::scalar, static_cast<int>(to_.scalars_.size() - 1)};
  }
  Value number(double value) {
    for (size_t i = std::size(kRoundNames); i < to_.scalars_.size(); ++i)
      if (!to_.scalars_[i].computed && to_.scalars_[i].value == value && std::signbit(to_.scalars_[i].value) == std::signbit(value))
        return {Kind::scalar, static_cast<int>(i)};
    return add_scalar({.value = value});
  }
  Value add_op(Elementwise op, std::vector<Value> sources) {
    if (std::any_of(sources.begin(), sources.end(), [](Value v) { return v.kind != Kind::scalar; })) {
      ops_.push_back({op, std::move(sources)});
      return {Kind::op, static_cast<int>(ops_.size() - 1)};
    }
    OuterProgram::Scalar scalar{.computed = true, .op = op};
    for (size_t i = 0; i < sources.size(); ++i) scalar.sources[i] = static_cast<uint16_t>(sources[i].index);
    return add_scalar(scalar);
  }

  Names round_names() const {
    Names names;
    for (size_t i = 0; i < std::size(kRoundNames); ++i) names[kRoundNames[i]] = {Kind::scalar, static_cast<int>(i)};
    return names;
  }

  Value knob(const Config& source, const std::string& name, const Json& value) {
    if (value.is_bool()) return number(value.as_bool() ? 1 : 0);
    if (value.is_number()) return number(checked(source, name, value.as_number()));
    if (!value.is_object())
      source.fail(name, "has the wrong type", value.type_name(), "a number, true or false, or a program of the round");
    const Config program = source.element(value, name);
    Names names = round_names();
    run_program(program, names);
    const Config outputs = program.object("outputs");
    const Value result = named(outputs, names, outputs.string("value"));
    outputs.reject_unread();
    program.reject_unread();
    return result;
  }

  static double checked(const Config& source, const std::string& name, double value) {
    if (!(std::fabs(value) <= kMaxNumber)) source.fail(name, "is out of range", Json(value).dump(), "a number from -1e30 to 1e30");
    return value;
  }

  void define(const Config& where, Names& names, const std::string& name, Value value) {
    if (!names.emplace(name, value).second) where.fail(name.substr(0, kMaxName), "is given twice");
  }

  Value named(const Config& where, const Names& names, const std::string& name) {
    const auto found = names.find(name);
    if (found != names.end()) {
      asked_.insert(name);
      return found->second;
    }
    std::vector<std::string> known;
    for (const auto& [each, unused] : names) known.push_back(each);
    throw Error(ErrorKind::model, {.where = where.where(),
                                   .what = "there is no value '" + name.substr(0, kMaxName) + "' at this point",
                                   .hint = nearest_hint(name, known)});
  }

  void run_program(const Config& source, Names& names) {
    const Json* program = source.raw("program");
    if (program == nullptr) source.fail("program", "is missing", "", "a list of ops");
    // A Lua table without entries may be written as an empty object.
    if (program->is_object() && program->as_object().empty()) return;
    if (!program->is_array()) source.fail("program", "must be a list of ops", program->type_name());
    const size_t count = program->as_array().size();
    if (count > kMaxOps) source.fail("program", "is too long", std::to_string(count) + " ops", "at most " + std::to_string(kMaxOps));
    for (size_t i = 0; i < count; ++i) step(source.element(program->as_array()[i], "op " + std::to_string(i + 1)), names);
  }

  void step(const Config& op, Names& names) {
    if (to_.scalars_.size() + 4 > kMaxScalars) op.fail("in", "is one number too many", "", "at most " + std::to_string(kMaxScalars));
    const Elementwise code = op_named(op);
    const Json* in = op.raw("in");
    const auto arity = static_cast<size_t>(elementwise_arity(code));
    if (in == nullptr || !in->is_array() || in->as_array().size() != arity)
      op.fail("in", "does not fit the op", in && in->is_array() ? std::to_string(in->as_array().size()) + " operands" : "",
              std::to_string(arity) + " names or numbers");
    std::vector<Value> sources;
    for (const Json& item : in->as_array()) {
      if (item.is_string()) sources.push_back(named(op, names, item.as_string()));
      else if (item.is_number()) sources.push_back(number(checked(op, "in", item.as_number())));
      else op.fail("in", "must be a list of names or numbers", item.type_name());
    }
    const bool of_round = std::all_of(sources.begin(), sources.end(), [](Value v) { return v.kind == Kind::scalar; });
    if (code == Elementwise::floor && !of_round)
      op.fail("op", "is for numbers of the round", "floor of parameters", "as in p.round - p.delay * pg.floor(p.round / p.delay)");
    define(op, names, op.string("out"), add_op(code, std::move(sources)));
    op.reject_unread();
  }

  // The new global, then the states that are assigned.
  std::vector<Value> outputs(const Config& source, const Names& names) {
    const Config given = source.object("outputs");
    std::vector<Value> values = {named(given, names, given.string(of_ == OuterOf::gradient ? "gradient" : "global"))};
    for (size_t i = 0; i < to_.states_.size(); ++i) {
      OuterState& state = to_.states_[i];
      if (!given.has(state.name)) continue;
      values.push_back(named(given, names, given.string(state.name)));
      state.assigned = true;
    }
    given.reject_unread();
    return values;
  }

  // Ops that the outputs need, in order; each result lives in a temporary until it was read for the last time.
  void emit(const Config& source, std::vector<Value> outputs) {
    // An output must be an op's result: memory of an input may be written before another output has read it.
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

    FusedParams& code = to_.code_;
    code.n_inputs = static_cast<uint8_t>(2 + to_.states_.size());
    std::vector<uint8_t> free, place(ops_.size());
    for (int t = kFusedTemporaries - 1; t >= 0; --t) free.push_back(static_cast<uint8_t>(kFusedTemporaryBase + t));
    for (int i = 0; i < end; ++i) {
      const Op& op = ops_[static_cast<size_t>(i)];
      if (op.last_use < 0) continue;
      if (code.n_instructions == kFusedInstructions) too_large(source, "ops on the parameters", kFusedInstructions);
      FusedInstruction& instruction = code.code[code.n_instructions++];
      instruction = {op.op, 0, {}};
      std::vector<int> ended;
      for (size_t s = 0; s < op.sources.size(); ++s) {
        const Value& operand = op.sources[s];
        instruction.sources[s] = operand.kind == Kind::input ? static_cast<uint8_t>(operand.index)
                                 : operand.kind == Kind::op  ? place[static_cast<size_t>(operand.index)]
                                                             : constant(source, operand.index);
        if (operand.kind != Kind::op || ops_[static_cast<size_t>(operand.index)].last_use != i) continue;
        if (std::find(ended.begin(), ended.end(), operand.index) == ended.end()) ended.push_back(operand.index);
      }
      for (const int operand : ended) free.push_back(place[static_cast<size_t>(operand)]);
      if (free.empty()) too_large(source, "results at once", kFusedTemporaries);
      instruction.target = place[static_cast<size_t>(i)] = free.back();
      free.pop_back();
    }
    for (const Value& value : outputs) code.outputs[code.n_outputs++] = place[static_cast<size_t>(value.index)];
  }

  uint8_t constant(const Config& source, int scalar) {
    auto& constants = to_.constants_;
    auto found = std::find(constants.begin(), constants.end(), static_cast<uint16_t>(scalar));
    if (found == constants.end()) {
      if (constants.size() == kFusedConstants) too_large(source, "numbers beside the parameters", kFusedConstants);
      found = constants.insert(constants.end(), static_cast<uint16_t>(scalar));
      to_.code_.n_constants = static_cast<uint8_t>(constants.size());
    }
    return static_cast<uint8_t>(kFusedConstantBase + (found - constants.begin()));
  }

  [[noreturn]] static void too_large(const Config& source, const std::string& what, int most) {
    source.fail("program", "needs too many " + what, "", "at most " + std::to_string(most));
  }

  OuterProgram& to_;
  const OuterKnobs& knobs_;
  const OuterOf of_;
  std::vector<Op> ops_;
  std::set<std::string> asked_;
};

OuterProgram::OuterProgram(const Config& source, std::vector<OuterState> states, const OuterKnobs& knobs, OuterOf of)
    : states_(std::move(states)) {
  OuterCompiler(*this, knobs, of).run(source);
  source.reject_unread();
}

FusedParams OuterProgram::at(const OuterRound& round) const {
  double values[kMaxScalars] = {round.workers, round.progress, round.round, round.learning_rate, round.staleness};
  for (size_t i = std::size(kRoundNames); i < scalars_.size(); ++i) {
    const Scalar& scalar = scalars_[i];
    values[i] = scalar.computed
                    ? evaluate<double>(scalar.op, values[scalar.sources[0]], values[scalar.sources[1]], values[scalar.sources[2]])
                    : scalar.value;
  }
  FusedParams code = code_;
  for (size_t i = 0; i < constants_.size(); ++i) code.constants[i] = values[constants_[i]];
  return code;
}

}  // namespace perigee
