// Examples from a table that steps prepare: what the steps measured and the table's schema are fitted values beside those of
// table_source(), so that other tables and records go the same way.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/data/source.h"
#include "src/data/table.h"
#include "src/data/table/columnar/columnar.h"
#include "src/data/table/examples/table_source.h"

namespace perigee::tables {

// `config`: the options of the source "table". Steps that choose or sort rows are for the file of a job: not for records.
SourcePtr prepared_file(const Config& config, const std::string& folder);
// A table's content, with fitted values.
SourcePtr prepared_text(const Config& config, std::string_view text, const std::string& name, TableUse use);
// A table that is in memory, with fitted values.
SourcePtr prepared_table(const Config& config, std::shared_ptr<const ColumnarFile> table, const std::string& name, TableUse use);
SourcePtr prepared_records(const Config& config, const Table& records, TableUse use);

// A table as it is before its columns become features: numbers, and all other cells as texts.
Table text_table(Frame frame, const std::string& where);

}  // namespace perigee::tables
