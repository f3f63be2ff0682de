#include "src/data/table/expression/expression.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"
#include "src/data/table/expression/evaluation.h"
#include "src/data/table/expression/expression_node.h"
#include "src/data/table/expression/expression_parser.h"

namespace perigee::tables {

Expression::Expression(std::string_view text, const std::string& where)
    : text_(text), where_(where + ": '" + std::string(text.substr(0, 60)) + "'") {
  if (text.size() > 100'000)
    throw Error(ErrorKind::data, {.where = where, .what = "the formula is too long", .expected = "at most 100000 characters"});
  root_ = ExpressionParser::parse(text_, where_);
}
Expression::~Expression() = default;
Expression::Expression(Expression&&) noexcept = default;

Column Expression::of(const Frame& frame) const { return Evaluation::of(*root_, frame, where_); }

std::vector<uint8_t> Expression::holds(const Frame& frame) const {
  if (std::vector<ConditionPart> parts; Evaluation::simple(*root_, frame, where_, parts)) {
    std::vector<uint8_t> holds(static_cast<size_t>(frame.rows));
    run_condition(parts, holds);
    return holds;
  }
  const Column column = of(frame);
  if (column.type != Type::boolean)
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = "this is no condition",
                                  .got = std::string("a ") + type_text(column.type),
                                  .expected = "a boolean such as age > 18"});
  std::vector<uint8_t> out(column.whole.size());
  for (size_t r = 0; r < out.size(); ++r) out[r] = column.whole[r] != 0 && !column.is_missing(static_cast<int64_t>(r));
  return out;
}

Type Expression::type(const TableSchema& schema) const { return of(empty_frame(schema)).type; }

void Expression::limits(const ColumnSpec& column, ColumnSpec& result) const {
  const auto affine = [&](const Node& node, const auto& self) -> bool {
    if (node.kind == Node::literal) return true;
    if (node.kind == Node::column) return node.name == column.name;
    if (node.kind != Node::arithmetic) return false;
    const bool constant = node.args[0]->kind == Node::literal || node.args[1]->kind == Node::literal;
    return (node.op == '+' || node.op == '-' || (node.op == '*' && constant) || (node.op == '/' && node.args[1]->kind == Node::literal)) &&
           self(*node.args[0], self) && self(*node.args[1], self);
  };
  if ((!column.least && !column.most) || !affine(*root_, affine)) return;
  Frame frame = empty_frame({.columns = {column}});
  frame.columns[0] = Column(Type::real);
  for (const double limit : {column.least.value_or(-HUGE_VAL), column.most.value_or(HUGE_VAL)}) frame.columns[0].add_real(limit);
  frame.rows = 2;
  const Column ends = of(frame);
  const double low = std::min(ends.number(0), ends.number(1)), high = std::max(ends.number(0), ends.number(1));
  if (std::isfinite(low)) result.least = low;
  if (std::isfinite(high)) result.most = high;
}

}  // namespace perigee::tables
