// A file's rows through steps, whether they fit the memory or not.
#pragma once

#include "src/data/table/reading/table_file.h"
#include "src/data/table/steps.h"

namespace perigee::tables {

// Gives `use` what the steps make of the file: as one table where it fits room.part(), in chunks of the same bits where it does not. `numbered`: each
// row has its number, from 1. False: a type that was found out did not hold; what was given is to be forgotten, and all of it done again.
bool run_table(TableFile& file, Steps& steps, const TableRoom& room, bool numbered, const UseFrame& use);

}  // namespace perigee::tables
