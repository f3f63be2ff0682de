#include "cluster/exchange/outer_program.h"

#include <algorithm>
#include <map>
#include <set>

namespace perigee {
namespace {

constexpr size_t kMaxOps = 1000;      // of one program, before those without use are left out
constexpr size_t kMaxNumbers = 2048;  // of all programs of a policy
constexpr size_t kMaxStates = kFusedOutputs - 1;
constexpr size_t kMaxKnobs = 64;
constexpr const char* kRoundNames[] = {"workers", "progress", "round", "learning_rate", "staleness"};
constexpr const char* kBlockNames[] = {"global", "mean", "delta", "gradient"};

Elementwise op_named(const Config& op) {
  const std::string name = op.string("op");
  for (const Elementwise known : exact_ops())
    if (name == elementwise_name(known)) return known;
  if (name == elementwise_name(Elementwise::floor)) return Elementwise::floor;
  const std::string hint = nearest_hint(name, outer_ops());
  op.fail("op", "cannot be used in an outer step", "'" + name.substr(0, kMaxProgramName) + "'", "arithmetic, sqrt, comparisons, where",
          hint.empty() ? "every machine must compute the same bits, element by element" : hint);
}

// Names that every program may use, and those of a trace's results.
bool is_reserved(const std::string& name) {
  const auto is = [&](const char* other) { return name == other; };
  return std::any_of(std::begin(kRoundNames), std::end(kRoundNames), is) ||
         std::any_of(std::begin(kBlockNames), std::end(kBlockNames), is) || is_trace_name(name);
}

void check_name(const Config& where, const std::string& name) {
  const bool plain = is_program_name(name);
  if (!plain || is_reserved(name))
    where.fail(name.substr(0, kMaxProgramName), plain ? "is a name that an outer step has already" : "is no name", "",
               "at most 64 letters, digits and _; not global, mean, workers, t1, ...");
}

}  // namespace

std::vector<std::string> outer_ops() {
  std::vector<std::string> names;
  for (const Elementwise op : exact_ops()) names.emplace_back(elementwise_name(op));
  names.emplace_back(elementwise_name(Elementwise::floor));
  return names;
}

class OuterCompiler {
 public:
  OuterCompiler(OuterProgram& to, const Config& source, const OuterKnobs& knobs, OuterOf of)
      : to_(to), source_(source), knobs_(knobs), of_(of), compiler_(source, &to.numbers_, {}) {}

  void run() {
    const Config& source = source_;
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
      names["delta"] = compiler_.add(Elementwise::sub, {names["global"], names["mean"]});
    }
    for (size_t i = 0; i < states; ++i) define(source, names, to_.states_[i].name, {Kind::input, static_cast<int>(2 + i)});
    for (const auto& [name, value] : knobs_) define(source, names, name, knob(source, name, value));
    run_program(source, names);
    const std::vector<ProgramValue> results = outputs(source, names);
    for (const auto& [name, value] : knobs_)
      if (!asked_.contains(name)) to_.unused_knobs_.push_back(name);
    to_.code_.n_inputs = static_cast<uint8_t>(2 + states);
    compiler_.emit(results, &to_.code_, &to_.constants_);
  }

 private:
  using Kind = ProgramValue::Kind;
  using Names = std::map<std::string, ProgramValue>;

  Names round_names() const {
    Names names;
    for (size_t i = 0; i < std::size(kRoundNames); ++i) names[kRoundNames[i]] = {Kind::number, static_cast<int>(i)};
    return names;
  }

  ProgramValue knob(const Config& source, const std::string& name, const Json& value) {
    if (value.is_bool()) return to_.numbers_.constant(value.as_bool() ? 1 : 0);
    if (value.is_number()) return to_.numbers_.constant(FusedCompiler::checked(source, name, value.as_number()));
    if (!value.is_object())
      source.fail(name, "has the wrong type", value.type_name(), "a number, true or false, or a program of the round");
    const Config program = source.element(value, name);
    Names names = round_names();
    run_program(program, names);
    const Config outputs = program.object("outputs");
    const ProgramValue result = named(outputs, names, outputs.string("value"));
    outputs.reject_unread();
    program.reject_unread();
    return result;
  }

  void define(const Config& where, Names& names, const std::string& name, ProgramValue value) {
    if (!names.emplace(name, value).second) where.fail(name.substr(0, kMaxProgramName), "is given twice");
  }

  ProgramValue named(const Config& where, const Names& names, const std::string& name) {
    const auto found = names.find(name);
    if (found != names.end()) {
      asked_.insert(name);
      return found->second;
    }
    std::vector<std::string> known;
    for (const auto& [each, unused] : names) known.push_back(each);
    throw Error(ErrorKind::model, {.where = where.where(),
                                   .what = "there is no value '" + name.substr(0, kMaxProgramName) + "' at this point",
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
    if (to_.numbers_.size() + 4 > kMaxNumbers) op.fail("in", "is one number too many", "", "at most " + std::to_string(kMaxNumbers));
    const Elementwise code = op_named(op);
    std::vector<ProgramValue> sources = compiler_.operands(op, [&](const std::string& name) { return named(op, names, name); });
    if (const auto arity = static_cast<size_t>(elementwise_arity(code)); arity != sources.size())
      op.fail("in", "does not fit the op", std::to_string(sources.size()) + " operands", std::to_string(arity) + " names or numbers");
    const bool of_round = std::all_of(sources.begin(), sources.end(), [](ProgramValue v) { return v.kind == Kind::number; });
    if (code == Elementwise::floor && !of_round)
      op.fail("op", "is for numbers of the round", "floor of parameters", "as in p.round - p.delay * pg.floor(p.round / p.delay)");
    define(op, names, op.string("out"), compiler_.add(code, std::move(sources)));
    op.reject_unread();
  }

  // The new global, then the states that are assigned.
  std::vector<ProgramValue> outputs(const Config& source, const Names& names) {
    const Config given = source.object("outputs");
    std::vector<ProgramValue> values = {named(given, names, given.string(of_ == OuterOf::gradient ? "gradient" : "global"))};
    for (size_t i = 0; i < to_.states_.size(); ++i) {
      OuterState& state = to_.states_[i];
      if (!given.has(state.name)) continue;
      values.push_back(named(given, names, given.string(state.name)));
      state.assigned = true;
    }
    given.reject_unread();
    return values;
  }

  OuterProgram& to_;
  const Config& source_;
  const OuterKnobs& knobs_;
  const OuterOf of_;
  FusedCompiler compiler_;
  std::set<std::string> asked_;
};

OuterProgram::OuterProgram(const Config& source, std::vector<OuterState> states, const OuterKnobs& knobs, OuterOf of)
    : states_(std::move(states)), numbers_(std::size(kRoundNames)) {
  OuterCompiler(*this, source, knobs, of).run();
  source.reject_unread();
}

FusedParams OuterProgram::at(const OuterRound& round) const {
  double values[kMaxNumbers] = {round.workers, round.progress, round.round, round.learning_rate, round.staleness};
  numbers_.evaluate(values);
  FusedParams code = code_;
  for (size_t i = 0; i < constants_.size(); ++i) code.constants[i] = values[constants_[i]];
  return code;
}

}  // namespace perigee
