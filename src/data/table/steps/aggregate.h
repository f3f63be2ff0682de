// Aggregates of groups of rows, for steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/data/table/frame.h"

namespace perigee::tables {

enum class Aggregate {
  min,
  max,
  range,
  sum,
  product,
  mean,
  median,
  stdev,
  variance,
  population_stdev,
  population_variance,
  count,
  rows,
  distinct,
  first,
  last,
  append,
  prepend,
  midpoint
};
inline constexpr const char* kAggregates[] = {
    "min",   "max",  "range",    "sum",   "product", "mean",   "median",  "stdev",   "variance", "population_stdev", "population_variance",
    "count", "rows", "distinct", "first", "last",    "append", "prepend", "midpoint"};

const char* aggregate_text(Aggregate op);
Type aggregate_type(Aggregate op, Type of);
// An aggregate of a column whose rows come in parts, in their order. What it gives does not depend on how they are cut, nor one group on the others.
class GroupAggregate {
 public:
  // `column`: of the type. Error(data) for one that has no such aggregate.
  GroupAggregate(Aggregate op, ColumnSpec spec, const Column& column, const std::string& where);
  ~GroupAggregate();
  GroupAggregate(GroupAggregate&&) noexcept;
  // The groups of these rows are 0 .. count - 1, of which more may come later.
  void take(const Column& column, const std::vector<int64_t>& groups, int64_t count);
  // After all rows. True: take() wants all of them again.
  bool wants_more(int64_t count);
  // A value for each group, missing where it has none.
  Column result(int64_t count);
  uint64_t bytes() const;  // about what it holds

 private:
  struct State;
  void take_chosen(const Column& column, const std::vector<int64_t>& groups, size_t count);
  void take_counted(const Column& column, const std::vector<int64_t>& groups, size_t count);
  void take_places(const Column& column, const std::vector<int64_t>& groups, size_t count);
  void take_texts(const Column& column, const std::vector<int64_t>& groups, size_t count);
  Aggregate op_;
  ColumnSpec spec_;
  std::string where_;
  std::unique_ptr<State> state_;
};

// A value for each of `count` groups, missing where a group has none. Error(data) for a column that has no such aggregate.
Column aggregate(Aggregate op, const Column& column, const ColumnSpec& spec, const std::vector<int64_t>& groups, int64_t count,
                 const std::string& where);

}  // namespace perigee::tables
