// Computes a formula for the rows of a table, column by column.
#pragma once

#include <string>
#include <vector>

#include "src/data/table/expression/expression_node.h"
#include "src/data/table/loops/conditions.h"

namespace perigee::tables {

class Evaluation {
 public:
  // A column of frame.rows values. Error(data) at `where`.
  static Column of(const Expression::Node& node, const Frame& frame, const std::string& where);
  // Whether the condition compares columns without gaps with constants, and joins such; then its parts, last what joins.
  static bool simple(const Expression::Node& node, const Frame& frame, const std::string& where, std::vector<ConditionPart>& parts);

 private:
  class Run;
};

}  // namespace perigee::tables
