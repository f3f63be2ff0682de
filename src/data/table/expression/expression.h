// Formulas over the columns of a table: "hours * 60 + minutes", "age >= 18 and city in ('Rome', 'Oslo')", "lower(trim(name))". They are
// computed column by column. What is missing stays missing, a condition that is missing does not hold.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

class Expression {
 public:
  // Error(data) at `where` with the position. Column names that are no words stand in backquotes: `hours-per-week`.
  Expression(std::string_view text, const std::string& where);
  ~Expression();
  Expression(Expression&&) noexcept;

  // A column of frame.rows values. Error(data) for a column that is not there, and for operands of the wrong types.
  Column of(const Frame& frame) const;
  // 1 where the condition holds.
  std::vector<uint8_t> holds(const Frame& frame) const;
  // The result's type and names: for this the expression is computed for no row.
  Type type(const TableSchema& schema) const;
  // The limits of a*x + b for those of x, where the expression is one of `column` alone; else nothing changes.
  void limits(const ColumnSpec& column, ColumnSpec& result) const;

 private:
  struct Node;
  std::unique_ptr<Node> root_;
  std::string text_, where_;
  friend class ExpressionParser;
  friend class Evaluation;
};

// Names, arguments and texts of the functions, for the documentation: "hour(t)", "part of a time", ...
struct FunctionText {
  const char *call, *doc;
};
std::vector<FunctionText> expression_functions();

}  // namespace perigee::tables
