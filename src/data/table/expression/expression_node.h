// A formula as a tree: how what reads formulas (expression_parser.cpp), what computes them (evaluation.cpp) and functions.cpp share it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/table/expression/expression.h"
#include "src/data/table/expression/regex.h"

namespace perigee::tables {

// An operand: a column of the table, or one that was computed. A constant has one row.
struct Value {
  Column own;
  const Column* kept = nullptr;      // of the table; null: `own`
  const ColumnSpec* spec = nullptr;  // of a category
  bool constant = false;
  bool nothing = false;  // the word `missing`: of any type
  const Column& column() const { return kept != nullptr ? *kept : own; }
  Type type() const { return column().type; }
  int64_t row(int64_t r) const { return constant ? 0 : r; }
  bool is_missing(int64_t r) const { return nothing || column().is_missing(row(r)); }
  std::string_view text(int64_t r) const;  // also of a category
  bool is_text() const { return type() == Type::text || type() == Type::category; }
  bool is_number() const { return type() == Type::real || type() == Type::integer || type() == Type::boolean; }
};

struct Call {
  std::string name, where;  // of errors
  std::vector<Value>& args;
  std::vector<Regex>& regexes;  // of the constant arguments that are patterns, kept with the formula
  size_t rows;                  // 1 where all arguments are constant
  double number(size_t arg, int64_t row) const { return args[arg].column().number(args[arg].row(row)); }
  bool any_missing(int64_t row) const {
    for (const Value& arg : args)
      if (arg.is_missing(row)) return true;
    return false;
  }
  // An argument that is constant, as an option is. Error(data) when it is not.
  std::string constant(size_t arg) const;
  const Regex& regex(size_t arg) const;
  [[noreturn]] void fail(const std::string& what, const std::string& got = "", const std::string& expected = "") const;
};

struct Function {
  const char* name;
  const char* doc;  // of the call and what it gives: "(t) of a time"
  size_t least, most;
  const char* takes;  // a letter per argument, the last for all others: n number, t time, s text, b boolean, a anything
  Column (*run)(Call& call);
};

struct Expression::Node {
  enum Kind { literal, nothing, column, arithmetic, compare, in, both, either, negation, call } kind = literal;
  char op = 0;
  std::string name;  // of a column or function; as errors show the node
  Column value;      // of a literal
  std::vector<std::unique_ptr<Node>> args;
  const Function* function = nullptr;
  mutable std::vector<Regex> regexes;
};

const Function* find_function(std::string_view name);
std::vector<std::string> function_names();

}  // namespace perigee::tables
