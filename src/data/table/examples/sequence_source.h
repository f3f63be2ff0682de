// Examples from a table whose rows are sequences: x [features, steps] of each, padded with zeros to the longest of the training data, n how many steps are
// there, y of its last row or of every row. What the training part says of the columns is fitted.
#pragma once

#include "src/data/source.h"
#include "src/data/table/examples/table_source.h"
#include "src/data/table/frame.h"

namespace perigee::tables {

// `config`: target, targets, target_steps, features, drop, missing, task of the source "table", and `fitted` with "sequences", where there is one. The
// source's fitted values are {"sequences": {...}}. Error(data) that names column and row.
SourcePtr sequence_source(const Config& config, const Frame& frame, const std::string& where, TableUse use);

}  // namespace perigee::tables
