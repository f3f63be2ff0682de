// The scores that a model gives to the unit that follows a text, for one or several texts side by side.
#pragma once

#include <cstdint>
#include <span>

namespace perigee {

class NextScores {
 public:
  virtual ~NextScores() = default;
  // Every row begins with the same text, which is not empty.
  virtual void begin(std::span<const int64_t> prompt) = 0;
  // Row i goes on with the text of row parents[i] and one more unit.
  virtual void advance(std::span<const int> parents, std::span<const int64_t> units) = 0;
  // Those of the unit after row `row`'s text, as many as the vocabulary has.
  virtual void scores(int row, std::span<double> into) const = 0;
};

}  // namespace perigee
