// Groups of rows by whole numbers, and the moments of each group.
#pragma once

#include <cstdint>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

// The least and the greatest of a column of whole numbers without gaps; false: there are gaps, no rows, or the range is much larger than the table.
bool small_range(const Column& column, int64_t& least, int64_t& most);
// The group of each row by the number in a column, in the order in which they come; `first`: the first row of each.
void groups_of_range(const Column& column, int64_t least, int64_t most, std::vector<int64_t>& groups, std::vector<int64_t>& first);
// Adds how many rows each group has.
void count_groups(const std::vector<int64_t>& groups, std::vector<int64_t>& counts);
// table[key - least] for each row; -1 outside the table.
void look_up(const Column& column, int64_t least, const std::vector<int64_t>& table, std::vector<int64_t>& out);

// Each group's count, mean, and the sum of the squares of the distances from it.
struct GroupMoments {
  std::vector<int64_t> count;
  std::vector<double> mean, squares;
};
// Counts and sums, in `mean`, of the groups 0 .. count - 1, of which there may have been fewer before.
void add_sums(const Column& column, const std::vector<int64_t>& groups, size_t count, GroupMoments& out);
void means_of_sums(size_t count, GroupMoments& out);
// Adds the squares of the distances from the means, and in `rest` the distances.
void add_distances(const Column& column, const std::vector<int64_t>& groups, GroupMoments& out, std::vector<double>& rest);
// Rounding leaves something of the mean, which `rest` knows.
void correct_squares(GroupMoments& out, const std::vector<double>& rest);

}  // namespace perigee::tables
