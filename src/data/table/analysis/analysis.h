// Statistics of a table: for each column counts, moments, quantiles, a histogram, different and frequent values; correlations; and what of it does
// not meet a schema. In one pass of bounded memory; the same bits for any number of threads.
#pragma once

#include <string>
#include <vector>

#include "src/core/json.h"
#include "src/data/table/reading/table_file.h"

namespace perigee::tables {

inline constexpr size_t kMostCorrelated = 50;

// {"file", "rows", "columns": [{"name", "type", "missing", "distinct", "mean", "quantiles": {...}, "histogram": [[from, to, count], ...], "top":
// [[text, count], ...]}], "correlations": {"columns", "values"}}. Times are numbers of milliseconds.
Json analyse(TableFile& file, const std::string& name);

// Cells that do not meet the file's schema: {"rows", "columns": [{"name", "valid", "missing", "invalid", "why": {...}}], "examples": [{"row",
// "column", "value", "why"}]}. The file reads misfits as missing (OnMisfit::missing).
Json check_quality(TableFile& file, const std::string& name, size_t examples);

// For terminals.
std::string analysis_text(const Json& analysis);
std::string quality_text(const Json& quality);

}  // namespace perigee::tables
