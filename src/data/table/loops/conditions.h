// Conditions over columns, block by block; each does the same as the general way of Expression.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

// A comparison of a column without gaps with a constant, or what joins two or inverts one; in postfix order.
struct ConditionPart {
  enum class Kind : uint8_t { numbers, texts, both, either, negation };
  Kind kind = Kind::numbers;
  char op = '=';  // = ! < > { }, the last two with equal
  const Column* column = nullptr;
  double number = 0;      // of numbers, times, and numbers of categories
  std::string text = {};  // of texts
};
inline constexpr size_t kMostConditions = 16;  // of them at once on the stack

// 1 where it holds, block by block, so that what is between stays in the cache.
void run_condition(std::span<const ConditionPart> parts, std::vector<uint8_t>& out);
// The numbers of rows first, ... whose `stays` is not 0.
void rows_that_stay(const std::vector<uint8_t>& stays, int64_t first, int64_t end, std::vector<int64_t>& rows);

}  // namespace perigee::tables
