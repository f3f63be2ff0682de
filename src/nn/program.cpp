#include "src/nn/program.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "src/core/known_hint.h"
#include "src/eager/eager.h"
#include "src/graph/build.h"
#include "src/graph/op.h"
#include "src/graph/scan.h"
#include "src/nn/program_forms.h"

namespace perigee {
namespace {

constexpr size_t kMostProgramOps = 10000;
constexpr size_t kMostProgramOperands = 64;
constexpr int kMostSizeDepth = 32;
constexpr int64_t kMostConstantElements = 1 << 20;

constexpr Option kConstantOptions[] = {{"shape", "list of integers", "[]", "its sizes", {.low = 0}},
                                       {"values", "list of numbers", nullptr, "in row-major order"},
                                       {"dtype", "name", "f32", "f32, i64 or bool", {}, {"f32", "i64", "bool"}}};
constexpr Schema kConstantSchema{.options = kConstantOptions};

const OpDef& program_op(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const OpDef* op : all_ops()) {
    if (op->internal) continue;
    if (name == op->name) return *op;
    known.push_back(op->name);
  }
  for (const ProgramForm& form : program_forms()) known.push_back(form.name);
  throw Error(ErrorKind::model,
              {.where = where, .what = "there is no op '" + name.substr(0, 100) + "'", .hint = known_hint(name, known, known.size())});
}

double size_of(Elementwise op, double a, double b) {
  switch (op) {
    case Elementwise::add: return a + b;
    case Elementwise::sub: return a - b;
    case Elementwise::mul: return a * b;
    case Elementwise::div: return a / b;
    case Elementwise::pow: return std::pow(a, b);
    default: assert(false); return 0;
  }
}

// The operator of {"mul": [a, b]}.
std::optional<Elementwise> size_operator(const Json& json) {
  if (!json.is_object() || json.as_object().size() != 1) return {};
  for (const Elementwise op : {Elementwise::add, Elementwise::sub, Elementwise::mul, Elementwise::div, Elementwise::pow})
    if (json.as_object()[0].first == elementwise_name(op)) return op;
  return {};
}

bool is_size(const Json& json) {
  const Json* of = json.find("size");
  return (of && of->is_string()) || size_operator(json).has_value();
}

Json integer_or_number(double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15) return Json(static_cast<int64_t>(value));
  return Json(value);
}

}  // namespace

void Program::define(const std::string& name, Value value, const std::string& where) {
  if (!values_.emplace(name, value).second)
    throw Error(ErrorKind::model, {.where = where, .what = "the name '" + name.substr(0, 100) + "' is given twice"});
}

Value Program::value(const std::string& name, const std::string& where) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  if (around_) return body_->outside(around_->value(name, where));
  std::vector<std::string> known;
  for (const auto& [each, unused] : values_)
    if (known.size() < 1000) known.push_back(each);
  throw Error(ErrorKind::model,
              {.where = where, .what = "there is no value '" + name.substr(0, 100) + "' at this point", .hint = nearest_hint(name, known)});
}

void Program::run(const Config& options) {
  const Json* program = options.raw("program");
  if (program == nullptr || (program->is_object() && program->as_object().empty())) return;  // an empty table of Lua
  const size_t count = program->as_array().size();
  if (count > kMostProgramOps)
    options.fail("program", "is too long", std::to_string(count) + " ops", "at most " + std::to_string(kMostProgramOps));
  for (size_t i = 0; i < count; ++i) step(options.element(program->as_array()[i], "op " + std::to_string(i + 1)));
}

void Program::step(const Config& op) {
  const std::string name = op.string("op");
  const Json* attrs = op.raw("attrs");
  const Json none = Json::object();
  // A Lua table without entries may be written as an empty list.
  if (attrs == nullptr || attrs->is_null() || (attrs->is_array() && attrs->as_array().empty())) attrs = &none;
  if (!attrs->is_object()) op.fail("attrs", "must be an object", attrs->type_name());
  const std::vector<Value> made = results(op, name, *attrs);
  const std::vector<std::string> names = op.string_list("out");
  if (names.empty() || names.size() > made.size())
    op.fail("out", "must name the results", std::to_string(names.size()), "1 to " + std::to_string(made.size()));
  for (size_t i = 0; i < names.size(); ++i) define(names[i], made[i], op.where());
  op.reject_unread();
}

std::vector<Value> Program::results(const Config& op, const std::string& name, const Json& attrs) {
  const OpDef* given = find_op(name);
  if (given != nullptr && given->constant && given->max_inputs == 0) {
    op.raw("in");
    return {number(Config(attrs, op.where()).number("value"))};
  }
  if (name == "constant") {
    op.raw("in");
    return {table(Config(attrs, kConstantSchema, op.where() + ": constant"))};
  }
  if (given != nullptr && given->loop) {
    try {
      return scan(op, attrs);
    } catch (const Error& error) {
      if (error.parts().where != graph_.scope()) throw;  // it names an op of the step
      Error::Parts parts = error.parts();
      parts.where = op.where();
      throw Error(error.kind(), std::move(parts));
    }
  }
  const ProgramForm* form = find_program_form(name);
  const OpDef* def = form ? nullptr : &program_op(name, op.where());
  const std::vector<Value> in = operands(op);
  const Json known = resolved(attrs, op, 0);
  try {
    if (def) return graph_.apply_all(def->name, in, known);
    if (in.empty() || (form->operands >= 0 && static_cast<int>(in.size()) != form->operands))
      op.fail("in", "has another number of operands than '" + name + "'", std::to_string(in.size()));
    return {form->build(in, Config(known, form->attributes, ""))};
  } catch (const Error& error) {
    // The graph names the layer; say which op of the program it was.
    Error::Parts parts = error.parts();
    parts.where = op.where() + ": '" + name + "'";
    throw Error(error.kind(), std::move(parts));
  }
}

Value Program::number(double value) const { return graph_.constant(value, {real_, Shape()}); }

// A small table of numbers.
Value Program::table(const Config& attrs) const {
  const std::vector<int64_t> dims = attrs.integer_list("shape");
  int64_t elements = 1;
  for (const int64_t dim : dims)
    if (__builtin_mul_overflow(elements, dim, &elements) || elements > kMostConstantElements)
      attrs.fail("shape", "has too many elements for a constant", "", "at most " + std::to_string(kMostConstantElements));
  if (dims.size() > kMaxRank) attrs.fail("shape", "has too many dimensions", std::to_string(dims.size()));
  const Json* list = attrs.raw("values");
  if (static_cast<int64_t>(list->as_array().size()) != elements)
    attrs.fail("values", "are not as many as the shape has elements", std::to_string(list->as_array().size()), std::to_string(elements));
  std::vector<double> values;
  for (const Json& item : list->as_array()) values.push_back(item.as_number());
  const std::string dtype = attrs.choice("dtype");
  return graph_.constant(Tensor::from(Shape(dims), values).to(dtype == "f32" ? real_ : dtype == "i64" ? Dtype::i64 : Dtype::boolean));
}

std::vector<Value> Program::operands(const Config& op) {
  std::vector<Value> values;
  const Json* in = op.raw("in");
  if (in == nullptr || !in->is_array()) op.fail("in", "must be a list of names or numbers");
  const size_t count = in->as_array().size();
  if (count > kMostProgramOperands) op.fail("in", "is too long", std::to_string(count), "at most " + std::to_string(kMostProgramOperands));
  std::vector<std::optional<double>> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    const Json& item = in->as_array()[i];
    if (item.is_number()) numbers[i] = item.as_number();
    else if (is_size(item)) numbers[i] = size(item, op, true, 0);
    else if (!item.is_string()) op.fail("in", "must be a list of names, numbers and sizes", item.type_name());
    values.push_back(numbers[i] ? number(*numbers[i]) : value(item.as_string(), op.where()));
  }
  return promoted(op.string("op"), std::move(values), numbers);
}

// Operands of one dtype, as for tensors: a whole number and a fraction meet as fractions. Values of `real_` stay as they are.
std::vector<Value> Program::promoted(const std::string& op, std::vector<Value> values,
                                     std::span<const std::optional<double>> numbers) const {
  if (std::all_of(values.begin(), values.end(), [&](const Value& value) { return value.dtype() == real_; })) return values;
  const OpDef* def = find_op(op);
  Elementwise element;
  if (find_elementwise(op, &element)) {
    std::vector<OperandDtype> dtypes;
    for (size_t i = 0; i < values.size(); ++i)
      dtypes.push_back(numbers[i] ? OperandDtype{std::nullopt, *numbers[i]} : OperandDtype{values[i].dtype(), 0});
    Dtype dtype = elementwise_dtype(element, dtypes);
    if (dtype == Dtype::f32) dtype = real_;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = cast(values[i], element == Elementwise::where && i == 0 ? Dtype::boolean : dtype);
  } else if (def != nullptr) {
    std::vector<Dtype> dtypes;
    for (const Value& value : values) dtypes.push_back(value.dtype());
    const std::vector<Dtype> wanted = perigee::operand_dtypes(*def, dtypes);
    for (size_t i = 0; i < values.size(); ++i) values[i] = cast(values[i], wanted[i] == Dtype::f32 ? real_ : wanted[i]);
  }
  return values;
}

// Attributes with their sizes put in.
Json Program::resolved(const Json& attrs, const Config& op, int depth) const {
  if (depth > kMostSizeDepth) op.fail("attrs", "are nested too deeply");
  if (is_size(attrs)) return integer_or_number(size(attrs, op, false, 0));
  if (attrs.is_object()) {
    const Json::Object& members = attrs.as_object();
    if (depth > 0 && members.size() == 1 && members[0].first == "shape" && members[0].second.is_string())
      return ints_json(value(members[0].second.as_string(), op.where()).shape().vector());
    Json all = Json::object();
    for (const auto& [key, item] : members) all.set(key, resolved(item, op, depth + 1));
    return all;
  }
  if (!attrs.is_array()) return attrs;
  Json all = Json::array();
  for (const Json& item : attrs.as_array()) all.push(resolved(item, op, depth + 1));
  return all;
}

double Program::size(const Json& expression, const Config& op, bool is_value, int depth) const {
  if (expression.is_number()) return expression.as_number();
  if (!is_size(expression) || depth > kMostSizeDepth)
    op.fail("in", "has a size that cannot be read", expression.type_name(), R"({"size": name, "axis": 1} or {"mul": [a, b]})");
  const std::optional<Elementwise> operation = size_operator(expression);
  if (!operation) {
    const Config given = op.element(expression, "size");
    const Value of = value(given.string("size"), op.where());
    const int64_t axis = given.integer("axis"), at = axis < 0 ? axis + of.rank() : axis;
    if (at < 0 || at >= of.rank())
      op.fail("in", "asks for the size of an axis that " + of.type().text() + " does not have", "axis " + std::to_string(axis),
              std::to_string(-of.rank()) + " to " + std::to_string(of.rank() - 1) + ", counted from 0");
    if (at == 0 && is_value)
      op.fail("in", "computes with the number of examples, which is another in each thread", "", "",
              "it may stand in shapes; a loss is a mean over the examples without it");
    return static_cast<double>(of.shape()[static_cast<int>(at)]);
  }
  const Json& operand = expression.as_object()[0].second;
  if (!operand.is_array() || operand.as_array().size() != 2) op.fail("in", "has a size of other than two operands");
  const double a = size(operand.as_array()[0], op, is_value, depth + 1), b = size(operand.as_array()[1], op, is_value, depth + 1);
  return size_of(*operation, a, b);
}

}  // namespace perigee
