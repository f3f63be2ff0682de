// Reads formulas.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/data/table/expression/expression_node.h"

namespace perigee::tables {

class ExpressionParser {
 public:
  // Error(data) at `where` with the position.
  static std::unique_ptr<Expression::Node> parse(std::string_view text, const std::string& where);

 private:
  class Reading;
};

}  // namespace perigee::tables
