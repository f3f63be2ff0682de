// A model's answers to records, as Lua sees them: for run:predict, and for a model at the prompt.
#pragma once

#include <lua.hpp>
#include <string>
#include <vector>

#include "src/model/prediction.h"

namespace perigee {

// Records as a script gives them: the name of a file, a table of columns by name, or a list of such. Taken on Lua's thread, opened on any.
struct GivenRecords {
  std::string path;  // empty: `records` are in the table
  Json records;
  Records open(const RecordReader& reader, const std::string& where) const;
};
GivenRecords records_at(lua_State* L, int index, const std::string& where);
// At `index` names of layers (nil, one, or a list), behind it beams (nil or a number). Error(usage).
PredictionOptions prediction_options_at(lua_State* L, int index, const std::string& where);
// A list of Predictions::json(), with `index` and `class` counted from 1 as places in Lua are.
void push_predictions(lua_State* L, const Predictions& predictions);

}  // namespace perigee
