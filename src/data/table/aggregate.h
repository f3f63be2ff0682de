// Aggregates of groups of rows, for steps.
#pragma once

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
  prepend
};
inline constexpr const char* kAggregates[] = {
    "min",   "max",  "range",    "sum",   "product", "mean",   "median", "stdev", "variance", "population_stdev", "population_variance",
    "count", "rows", "distinct", "first", "last",    "append", "prepend"};

const char* aggregate_text(Aggregate op);
Type aggregate_type(Aggregate op, Type of);
// A value for each of `count` groups, missing where a group has none. Error(data) for a column that has no such aggregate.
Column aggregate(Aggregate op, const Column& column, const ColumnSpec& spec, const std::vector<int64_t>& groups, int64_t count,
                 const std::string& where);

}  // namespace perigee::tables
