// Loops over whole columns that decide how fast a table is: conditions, times, dictionaries, keys, moments. With full optimisation, unlike the steps;
// each does the same as the general way of the step that calls it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

// --- Conditions ----------------------------------------------------------------------------------------------------------------

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

// --- Times ---------------------------------------------------------------------------------------------------------------------

// "2016-01-31" and "2016-01-31 12:30:45" (or T) at exactly their length. False: it is another form, or no time.
bool parse_usual_time(std::string_view text, int64_t& ms);
// Texts of the usual forms as times; the rest as `other` reads them (false: missing).
void parse_times(const Column& texts, bool (*other)(std::string_view, int64_t&), Column& out);
enum class TimePart : uint8_t { year, month, day, hour, minute, second, millisecond, weekday, yearday };
int64_t time_part(int64_t ms, TimePart part);
void time_parts(const Column& times, TimePart part, std::vector<int64_t>& out);

// --- Dictionaries --------------------------------------------------------------------------------------------------------------

// Numbers of texts in the order in which they came.
class TextTable {
 public:
  TextTable();
  // `there`: eight bytes may be read where the text begins.
  int64_t find(std::string_view text, bool there = false) const;  // -1: it is not there
  int64_t add(std::string_view text, bool there = false);         // its number, new or not
  size_t size() const { return ends_.size(); }
  std::string_view text(size_t number) const;

 private:
  // The loops look at slots: of a short text they say everything.
  struct Slot {
    uint64_t hash = 0;
    uint32_t size = 0;
    int32_t number = -1;
  };
  const Slot& slot_of(std::string_view text, uint64_t hash) const;
  int64_t add_new(std::string_view text, uint64_t hash, const Slot& slot);
  void grow();
  std::string bytes_;
  std::vector<uint64_t> ends_;
  std::vector<Slot> slots_;
};

// Adds what a column of texts has; false beyond `most` of them. `out`, if there is one: the number of each row, -1 where it is missing.
bool add_texts(const Column& column, size_t most, TextTable& table, std::vector<int64_t>* out = nullptr);
// Each number becomes what `by` has in its place; what is less than 0 stays.
void renumber(std::vector<int64_t>& numbers, const std::vector<int64_t>& by);
// The number of each text of a column without gaps, which are added; `first`: the first row of each.
void number_texts(const Column& column, TextTable& table, std::vector<int64_t>& out, std::vector<int64_t>& first);
// The number of each text, -1 where it is missing or not in the table.
void find_texts(const Column& column, const TextTable& table, std::vector<int64_t>& out);

// Zeros, and a one in the column of each row's number, if it has one.
void one_hot(const std::vector<int64_t>& numbers, std::vector<std::vector<int64_t>>& out);

// --- Keys and groups -----------------------------------------------------------------------------------------------------------

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

// The sums of the last `window` values of each of these rows, of the rows there are at the begin; of a column without gaps. Each is added up in the
// order of its rows, so that it does not depend on where the sequence begins.
void moving_sums(const Column& column, int64_t begin, int64_t end, int64_t window, double* out);

// The finite ones of a column of reals: how many, mean, squares, least and greatest, in one pass over the memory.
struct Measures {
  int64_t count = 0;
  double mean = 0, squares = 0, least = 0, most = 0;
};
Measures measures_of(std::span<const double> values);
// The same of values that come in parts, however they are cut.
class MeasuredParts {
 public:
  void add(std::span<const double> values);
  Measures result();

 private:
  Measures all_ = {};
  bool any_ = false;
  std::vector<double> rest_;  // of a block that is not full yet
};

}  // namespace perigee::tables
