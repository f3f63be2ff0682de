// The scores that a model gives to the unit that follows a text, for one or several texts side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// Numbers that every row reads.
inline std::vector<int64_t> repeated(const std::vector<int64_t>& numbers, int64_t rows) {
  std::vector<int64_t> all;
  for (int64_t row = 0; row < rows; ++row) all.insert(all.end(), numbers.begin(), numbers.end());
  return all;
}

}  // namespace perigee
