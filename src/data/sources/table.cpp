// {"type": "table", "file": "adult.csv", "steps": [...], "target": "income"}: a table in a file, prepared by steps; see src/data/table.
#include "src/data/table/examples/prepared.h"
#include "src/io/codec/encoding.h"

namespace perigee {
namespace {

SourcePtr open_table_source(const Config& config, const std::string& folder) { return tables::prepared_file(config, folder); }

constexpr const char* kTablePositional[] = {"file"};
constexpr Option kTableOptions[] = {
    {"file", "file", "none", "CSV or JSON Lines, also .gz, .xz and .zst; Parquet, Arrow, ...; odbc:DSN=shop#orders"},
    {"host", "string", "none", "instead of a file: a table that the program which embeds Perigee has handed over, by name"},
    {"schema", "file or table", "found out", "the columns, as `perigee data schema` prints them"},
    {"steps", "list", "[]", "what is done to the table: {{derive = {bmi = \"kg / m ^ 2\"}}, {impute = \"*\"}, ...}"},
    {"target", "column", "the last column", "what is foretold, after the steps: a name or number; false: none"},
    {"targets", "list of columns", "none", "of sequences: several numbers that are foretold, instead of a target"},
    {"target_steps", "name", "last", "of sequences: the target of the last row, or of each", {}, {"last", "each"}},
    {"weight", "column", "none", "how much each row counts: a name or number; it is no feature"},
    {"features", "list of columns", "all others", "what it is foretold from"},
    {"drop", "list of columns", "[]", "columns that are left out"},
    {"categorical", "list of columns", "[]", "columns of numbers that are names"},
    {"header", "boolean", "found out", "the first line names the columns"},
    {"delimiter", "string", "found out", "the character between two fields"},
    {"lines", "string", "none", "a regular expression whose groups are the columns of each line: \"(?<host>\\S+) (?<status>\\d+)\""},
    {"sequences",
     "name",
     "none",
     "the file has several sequences with a line between: lines are their rows, their columns (padded: with missing values), or joined to "
     "one column; the column 'sequence' has their numbers",
     {},
     {"rows", "columns", "padded", "joined"}},
    {"separator", "string", "a blank line", "the line between two sequences"},
    {"encoding", "name", kEncodingFallback, kEncodingDoc},
    {"missing", "name", "error", "what becomes of a gap that the steps leave", {}, {"error", "mean", "skip"}},
    {"missing_values", "list of names", "the empty text, NA, NaN, null, ?", "how a gap is written"},
    {"task", "name", "auto", "whether the target is a class", {}, {"auto", "classify", "regress"}},
    {"fitted", "table", "none", "what was learned from the training part"}};

}  // namespace

extern const SourceDef source_table;
const SourceDef source_table{
    .type = "table",
    .doc =
        "A table 'file' whose columns have types, prepared by 'steps' (src/data/table/README.md): filter, derive, join, group, impute, ... "
        "What the steps measure is stored with the model. Options: schema, steps, and those of csv",
    .schema = {.options = kTableOptions, .positional = kTablePositional},
    .open = open_table_source};

}  // namespace perigee
