#include "src/data/table/expression/evaluation.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/data/table/loops/arithmetic.h"
#include "src/data/table/loops/large.h"
#include "src/data/table/time_text.h"

namespace perigee::tables {

std::string_view Value::text(int64_t r) const {
  const Column& from = column();
  if (from.type == Type::text) return from.text(row(r));
  return spec->categories[static_cast<size_t>(from.whole[static_cast<size_t>(row(r))])];
}

namespace {

constexpr size_t kRowsAtOnce = 512;  // more of them, with what they are computed of, do not stay in the first cache

}  // namespace

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
      case Node::arithmetic: return calculated(chain(node));
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
    if (node.kind == Node::compare) value.own = compared(node.op, args, rows);
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
  static void spread_missing(const Value& arg, size_t rows, Column& out) {
    if (!arg.nothing && arg.column().missing.empty()) return;
    if (out.missing.empty()) out.missing.assign(rows, 0);
    for (size_t r = 0; r < rows; ++r)
      if (arg.is_missing(static_cast<int64_t>(r))) out.missing[r] = 1;
  }

  struct Operand {
    std::vector<double> memory[2];  // a result does not lie where an operand is
    const double* values = nullptr;
    bool constant = false;
  };

  // Doubles of numbers or times of some rows, without a copy where it has them.
  static void doubles(const Value& value, size_t begin, size_t count, Operand& to) {
    const Column& column = value.column();
    to.constant = value.constant;
    if (value.constant) begin = 0, count = 1;
    if (!value.nothing && column.type == Type::real) {
      to.values = column.real.data() + begin;
      return;
    }
    to.memory[0].resize(kRowsAtOnce);
    for (size_t r = 0; r < count; ++r) to.memory[0][r] = value.nothing ? 0 : static_cast<double>(column.whole[begin + r]);
    to.values = to.memory[0].data();
  }

  void expect_number(const Value& value, char op) const {
    if (value.nothing || value.is_number() || value.type() == Type::time) return;
    fail(std::string("'") + op + "' wants numbers", std::string("a ") + type_text(value.type()),
         "a number: real(x), integer(x) or length(x) give one");
  }

  // Arithmetic of reals that is not done yet: `code` has a letter for each leaf, put on a stack, and operators for the two on top of it.
  struct Chain {
    std::vector<Value> leaves;
    std::string code;
    bool one() const { return leaves.size() == 1; }
  };
  static constexpr char kLeaf = 'v';

  static Chain chain_of(Value value) {
    Chain leaf{.leaves = {}, .code = std::string(1, kLeaf)};
    leaf.leaves.push_back(std::move(value));
    return leaf;
  }

  // Whole numbers and constants are computed at once.
  Chain chain(const Node& node) const {
    if (node.kind != Node::arithmetic) return chain_of(of(node));
    Chain a = chain(*node.args[0]), b = chain(*node.args[1]);
    for (const Chain* each : {&a, &b})
      if (each->one()) expect_number(each->leaves[0], node.op);
    const auto is_whole = [](const Chain& c) { return c.one() && !c.leaves[0].nothing && c.leaves[0].type() != Type::real; };
    if (is_whole(a) && is_whole(b) && node.op != '/') return chain_of(whole_numbers(node.op, a.leaves[0], b.leaves[0]));
    const bool constant = a.one() && b.one() && a.leaves[0].constant && b.leaves[0].constant;
    for (Value& leaf : b.leaves) a.leaves.push_back(std::move(leaf));
    a.code += b.code + node.op;
    return constant ? chain_of(calculated(a)) : std::move(a);
  }

  Value whole_numbers(char op, const Value& a, const Value& b) const {
    const bool first = a.type() == Type::time, second = b.type() == Type::time;
    const bool time = op == '+' ? first != second : op == '-' && first && !second;
    Value value{.own = Column(time ? Type::time : Type::integer), .constant = a.constant && b.constant};
    const size_t rows = value.constant ? 1 : static_cast<size_t>(frame_.rows);
    resize_large(value.own.whole, rows);
    const int64_t *x = a.column().whole.data(), *y = b.column().whole.data();
    if (rows > 0 && !arithmetic(op, x, a.constant, y, b.constant, value.own.whole.data(), rows))
      fail("a result is no 64-bit integer", op == '%' ? "x % 0" : "an overflow", "real(x) to compute with reals");
    spread_missing(a, rows, value.own);
    spread_missing(b, rows, value.own);
    return value;
  }

  Value calculated(Chain chain) const {
    if (chain.one()) return std::move(chain.leaves[0]);
    Value value{.own = Column(Type::real), .constant = true};
    for (const Value& leaf : chain.leaves) value.constant = value.constant && leaf.constant;
    const size_t rows = value.constant ? 1 : static_cast<size_t>(frame_.rows);
    reserve_large(value.own.real, rows);
    std::vector<Operand> stack;
    for (size_t begin = 0; begin < rows; begin += kRowsAtOnce) {
      const size_t count = std::min(kRowsAtOnce, rows - begin);
      calculate(chain, begin, count, stack);
      value.own.real.insert(value.own.real.end(), stack[0].values, stack[0].values + count);
    }
    for (const Value& leaf : chain.leaves) spread_missing(leaf, rows, value.own);
    return value;
  }

  static void calculate(const Chain& chain, size_t begin, size_t count, std::vector<Operand>& stack) {
    size_t top = 0;
    auto leaf = chain.leaves.begin();
    for (const char op : chain.code) {
      if (op != kLeaf) {
        --top;
        Operand &a = stack[top - 1], &b = stack[top];
        std::vector<double>& to = a.memory[a.values == a.memory[0].data() ? 1 : 0];
        to.resize(kRowsAtOnce);
        arithmetic(op, a.values, a.constant, b.values, b.constant, to.data(), count);
        a.values = to.data(), a.constant = false;
        continue;
      }
      if (stack.size() == top) stack.emplace_back();
      doubles(*leaf++, begin, count, stack[top++]);
    }
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
      Operand a, b;
      for (size_t begin = 0; begin < rows; begin += kRowsAtOnce) {
        const size_t count = std::min(kRowsAtOnce, rows - begin);
        doubles(args[0], begin, count, a);
        doubles(args[1], begin, count, b);
        compare(op, a.values, a.constant, b.values, b.constant, out.whole.data() + begin, count);
      }
    }
    for (const Value& arg : args) spread_missing(arg, rows, out);
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
