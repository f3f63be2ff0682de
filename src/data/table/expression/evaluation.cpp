#include "src/data/table/expression/evaluation.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/data/table/loops/arithmetic.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {

std::string_view Value::text(int64_t r) const {
  const Column& from = column();
  if (from.type == Type::text) return from.text(row(r));
  return spec->categories[static_cast<size_t>(from.whole[static_cast<size_t>(row(r))])];
}

class Evaluation::Run {
 public:
  using Node = Expression::Node;
  Run(const Frame& frame, const std::string& where) : frame_(frame), where_(where) {}

  Value of(const Node& node) const {
    Value value;
    switch (node.kind) {
      case Node::literal:
        value.kept = &node.value;
        value.constant = true;
        return value;
      case Node::nothing: value.constant = value.nothing = true; return value;
      case Node::column: {
        const size_t c = frame_.schema.at(node.name, where_);
        value.kept = &frame_.columns[c];
        value.spec = &frame_.schema.columns[c];
        return value;
      }
      case Node::negation: return negated(node);
      case Node::both:
      case Node::either: return chained(node);
      case Node::in: return member(node);
      default: break;
    }
    std::vector<Value> args;
    bool constant = true;
    for (const auto& arg : node.args) {
      args.push_back(of(*arg));
      constant = constant && args.back().constant;
    }
    value.constant = constant;
    const size_t rows = constant ? 1 : static_cast<size_t>(frame_.rows);
    if (node.kind == Node::arithmetic) value.own = calculated(node.op, args, rows);
    else if (node.kind == Node::compare) value.own = compared(node.op, args, rows);
    else value.own = called(node, args, rows);
    return value;
  }

  Column whole(const Node& node) const {
    Value value = of(node);
    if (value.nothing) value.own = Column(Type::real), value.own.add_missing();
    if (value.constant) {
      Column spread(value.type());
      for (int64_t r = 0; r < frame_.rows; ++r) spread.add_from(value.column(), 0);
      return spread;
    }
    if (value.kept == nullptr) return std::move(value.own);
    if (value.type() != Type::category) return *value.kept;
    Column text(Type::text);
    for (int64_t r = 0; r < frame_.rows; ++r)
      if (value.is_missing(r)) text.add_missing();
      else text.add_text(value.text(r));
    return text;
  }

  [[noreturn]] void fail(const std::string& what, const std::string& got = "", const std::string& expected = "") const {
    throw Error(ErrorKind::data, {where_, what, got, expected, ""});
  }

  bool simple(const Node& node, std::vector<ConditionPart>& parts) const {
    using Kind = ConditionPart::Kind;
    if (node.kind == Node::negation) {
      if (!simple(*node.args[0], parts)) return false;
      parts.push_back({.kind = Kind::negation});
      return true;
    }
    if (node.kind == Node::both || node.kind == Node::either) {
      for (size_t i = 0; i < node.args.size(); ++i) {
        if (!simple(*node.args[i], parts)) return false;
        if (i > 0) parts.push_back({.kind = node.kind == Node::both ? Kind::both : Kind::either});
      }
      return true;
    }
    if (node.kind != Node::compare || node.args[0]->kind != Node::column || node.args[1]->kind != Node::literal) return false;
    const size_t c = frame_.schema.at(node.args[0]->name, where_);
    const Column &column = frame_.columns[c], &with = node.args[1]->value;
    if (!column.missing.empty() || parts.size() >= kMostConditions || with.is_missing(0)) return false;
    ConditionPart part{.op = node.op, .column = &column};
    if (with.type == Type::text) {
      part.text = with.text(0);
      if (column.type == Type::text) part.kind = Kind::texts;
      else if (int64_t ms = 0; column.type == Type::time && parse_iso_time(part.text, ms)) part.number = static_cast<double>(ms);
      else if (column.type == Type::category && (node.op == '=' || node.op == '!')) {
        const auto& names = frame_.schema.columns[c].categories;
        const auto found = std::find(names.begin(), names.end(), part.text);
        part.number = found == names.end() ? -1 : static_cast<double>(found - names.begin());
      } else {
        return false;
      }
    } else {
      if (column.type == Type::text || column.type == Type::category || column.type == Type::list) return false;
      part.number = with.number(0);
    }
    parts.push_back(std::move(part));
    return true;
  }

 private:
  // A value that is missing in one is missing in the result.
  static void spread_missing(const std::vector<Value>& args, size_t rows, Column& out) {
    for (const Value& arg : args) {
      if (!arg.nothing && arg.column().missing.empty()) continue;
      if (out.missing.empty()) out.missing.assign(rows, 0);
      for (size_t r = 0; r < rows; ++r)
        if (arg.is_missing(static_cast<int64_t>(r))) out.missing[r] = 1;
    }
  }

  // Doubles of a number or time, without a copy where it has them.
  static const double* doubles(const Value& value, std::vector<double>& kept) {
    const Column& column = value.column();
    if (column.type == Type::real && !value.nothing) return column.real.data();
    kept.resize(std::max<size_t>(value.nothing ? 1 : column.whole.size(), 1));
    if (!value.nothing)
      for (size_t r = 0; r < column.whole.size(); ++r) kept[r] = static_cast<double>(column.whole[r]);
    return kept.data();
  }

  void expect_number(const Value& value, char op) const {
    if (value.nothing || value.is_number() || value.type() == Type::time) return;
    fail(std::string("'") + op + "' wants numbers", std::string("a ") + type_text(value.type()),
         "a number: real(x), integer(x) or length(x) give one");
  }

  Column calculated(char op, std::vector<Value>& args, size_t rows) const {
    for (const Value& arg : args) expect_number(arg, op);
    const bool whole =
        std::none_of(args.begin(), args.end(), [](const Value& v) { return v.nothing || v.type() == Type::real; }) && op != '/';
    const bool first = !args[0].nothing && args[0].type() == Type::time, second = !args[1].nothing && args[1].type() == Type::time;
    const bool time = whole && (op == '+' ? first != second : op == '-' ? first && !second : false);
    Column out(time ? Type::time : whole ? Type::integer : Type::real);
    if (whole) {
      out.whole.resize(rows);
      const auto at = [](const Value& v) { return v.column().whole.data(); };
      if (rows > 0 && !arithmetic(op, at(args[0]), args[0].constant, at(args[1]), args[1].constant, out.whole.data(), rows))
        fail("a result is no 64-bit integer", op == '%' ? "x % 0" : "an overflow", "real(x) to compute with reals");
    } else {
      std::vector<double> kept[2];
      const double* const a = doubles(args[0], kept[0]);
      const double* const b = doubles(args[1], kept[1]);
      out.real.resize(rows);
      if (rows > 0) arithmetic(op, a, args[0].constant, b, args[1].constant, out.real.data(), rows);
    }
    spread_missing(args, rows, out);
    return out;
  }

  // A constant text beside a time is one.
  void as_times(std::vector<Value>& args) const {
    for (size_t i = 0; i < 2; ++i) {
      Value& other = args[1 - i];
      if (args[i].nothing || args[i].type() != Type::time || !other.constant || other.nothing || other.type() != Type::text) continue;
      Column time(Type::time);
      int64_t ms = 0;
      if (!parse_iso_time(other.text(0), ms))
        fail("this is no time", "'" + std::string(other.text(0)) + "'", "2016-01-31 or 2016-01-31 12:30:00");
      time.add_whole(ms);
      other.own = std::move(time);
      other.kept = nullptr;
    }
  }

  // For a category and a constant text the numbers are compared.
  static bool compare_category(char op, const std::vector<Value>& args, size_t rows, Column& out) {
    if (args[0].type() != Type::category || !args[1].constant || (op != '=' && op != '!')) return false;
    const auto& names = args[0].spec->categories;
    const auto found = std::find(names.begin(), names.end(), args[1].text(0));
    const int64_t number = found == names.end() ? -1 : found - names.begin();
    const std::vector<int64_t>& numbers = args[0].column().whole;
    for (size_t r = 0; r < rows; ++r) out.whole[r] = (numbers[r] == number) == (op == '=');
    return true;
  }

  Column compared(char op, std::vector<Value>& args, size_t rows) const {
    as_times(args);
    Column out(Type::boolean);
    out.whole.resize(rows);
    const bool nothing = args[0].nothing || args[1].nothing;
    if (nothing) fail("nothing is equal to a missing value", "", "is_missing(x)");
    if (args[0].is_text() && args[1].is_text()) {
      if (!compare_category(op, args, rows, out))
        for (size_t r = 0; r < rows; ++r) {
          const auto row = static_cast<int64_t>(r);
          if (args[0].is_missing(row) || args[1].is_missing(row)) continue;
          const int order = args[0].text(row).compare(args[1].text(row));
          out.whole[r] = op == '='   ? order == 0
                         : op == '!' ? order != 0
                         : op == '<' ? order < 0
                         : op == '>' ? order > 0
                         : op == '{' ? order <= 0
                                     : order >= 0;
        }
    } else {
      if (args[0].is_text() != args[1].is_text() || args[0].type() == Type::list || args[1].type() == Type::list)
        fail("values of these types are not compared", std::string(type_text(args[0].type())) + " and " + type_text(args[1].type()),
             "two numbers, two texts or two times: text(x), real(x) and time(x) convert");
      std::vector<double> kept[2];
      const double* const a = doubles(args[0], kept[0]);
      const double* const b = doubles(args[1], kept[1]);
      if (rows > 0) compare(op, a, args[0].constant, b, args[1].constant, out.whole.data(), rows);
    }
    spread_missing(args, rows, out);
    return out;
  }

  void expect_condition(const Value& value, const char* of) const {
    if (!value.nothing && value.type() != Type::boolean)
      fail(std::string("'") + of + "' wants conditions", std::string("a ") + type_text(value.type()), "a boolean such as age > 18");
  }

  Value negated(const Node& node) const {
    Value value = of(*node.args[0]);
    expect_condition(value, "not");
    if (value.nothing) return value;
    Value out{.own = value.column(), .constant = value.constant};
    for (int64_t& each : out.own.whole) each = !each;
    return out;
  }

  // Three-valued: false and missing is false, true or missing is true.
  Value chained(const Node& node) const {
    const bool all = node.kind == Node::both;
    Value out{.own = Column(Type::boolean)};
    out.own.whole.assign(static_cast<size_t>(frame_.rows), all);
    for (const auto& arg : node.args) {
      const Value value = of(*arg);
      expect_condition(value, all ? "and" : "or");
      for (int64_t r = 0; r < frame_.rows; ++r) {
        int64_t& result = out.own.whole[static_cast<size_t>(r)];
        const bool decided = result == !all && !out.own.is_missing(r);
        if (decided) continue;
        if (value.is_missing(r)) {
          out.own.set_missing(r);
        } else if (value.column().whole[static_cast<size_t>(value.row(r))] != all) {
          result = !all;
          if (!out.own.missing.empty()) out.own.missing[static_cast<size_t>(r)] = 0;
        }
      }
    }
    return out;
  }

  Value member(const Node& node) const {
    Value out{.own = Column(Type::boolean)};
    out.own.whole.assign(static_cast<size_t>(frame_.rows), 0);
    const Value value = of(*node.args[0]);
    std::vector<Value> pair(2);
    for (size_t i = 1; i < node.args.size(); ++i) {
      pair[0] = value;
      pair[1] = of(*node.args[i]);
      const Column equal = compared('=', pair, value.constant && pair[1].constant ? 1 : static_cast<size_t>(frame_.rows));
      for (size_t r = 0; r < out.own.whole.size(); ++r) out.own.whole[r] |= equal.whole[equal.whole.size() == 1 ? 0 : r];
      out.own.missing = equal.missing.size() == out.own.whole.size() ? equal.missing : std::vector<uint8_t>{};
    }
    return out;
  }

  Column called(const Node& node, std::vector<Value>& args, size_t rows) const {
    Call call{.name = node.name, .where = where_, .args = args, .regexes = node.regexes, .rows = rows};
    const Function& function = *node.function;
    const std::string_view kinds = function.takes;
    for (size_t i = 0; i < args.size(); ++i) {
      const char kind = kinds[std::min(i, kinds.size() - 1)];
      const Value& arg = args[i];
      const bool good = kind == 'a' || arg.nothing || (kind == 'n' && arg.is_number()) || (kind == 's' && arg.is_text()) ||
                        (kind == 't' && arg.type() == Type::time) || (kind == 'b' && arg.type() == Type::boolean);
      const char* const wanted = kind == 'n' ? "a number" : kind == 's' ? "a text" : kind == 't' ? "a time" : "a condition";
      if (!good) call.fail("argument " + std::to_string(i + 1) + " has the wrong type", std::string("a ") + type_text(arg.type()), wanted);
    }
    Column out = function.run(call);
    return out;
  }

  const Frame& frame_;
  const std::string& where_;
};

Column Evaluation::of(const Expression::Node& node, const Frame& frame, const std::string& where) { return Run(frame, where).whole(node); }

bool Evaluation::simple(const Expression::Node& node, const Frame& frame, const std::string& where, std::vector<ConditionPart>& parts) {
  return Run(frame, where).simple(node, parts);
}

}  // namespace perigee::tables
