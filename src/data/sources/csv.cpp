// {"type": "csv", "file": "iris.csv", "target": -1}: a table in a file, read by table_source().
#include "src/data/table/examples/table_source.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/encoding.h"

namespace perigee {
namespace {

SourcePtr open_csv(const Config& config, const std::string& folder) {
  const std::string path = path_in(folder, config.string("file"));
  struct Kept {
    FileContent content;
    DecodedText decoded;
  };
  const auto kept = std::make_shared<Kept>(Kept{FileContent::open(path, uint64_t{1} << 34), DecodedText()});
  kept->decoded = decoded_text(as_text(kept->content.bytes()), config.string("encoding", ""), path);
  return table_source(config, csv_table(kept->decoded.text, kept, path, csv_format(config)), TableUse::examples);
}

constexpr const char* kCsvPositional[] = {"file"};
constexpr Option kCsvOptions[] = {
    {"file", "file", nullptr, "the table, also .gz, .xz and .zst"},
    {"target", "column", "the last column", "what is foretold: a name or number; false: none"},
    {"weight", "column", "none", "how much each row counts: a name or number; it is no feature"},
    {"features", "list of columns", "all others", "what it is foretold from"},
    {"drop", "list of columns", "[]", "columns that are left out"},
    {"categorical", "list of columns", "[]", "columns of numbers that are names"},
    {"dates", "list of columns", "[]", "columns of dates, which become years: 2023.5 is the middle of 2023"},
    {"header", "boolean", "found out", "the first line names the columns"},
    {"delimiter", "string", ",", "the character between two fields"},
    {"encoding", "name", kEncodingFallback, kEncodingDoc},
    {"decimal", "name", ".", "what stands before the decimals of a number: \"3,5\" in many tables of Europe", {}, {".", ","}},
    {"missing", "name", "error", "what becomes of a gap", {}, {"error", "mean", "skip"}},
    {"missing_values", "list of names", "the empty text, NA, NaN, null, ?", "how a gap is written"},
    {"task", "name", "auto", "whether the target is a class", {}, {"auto", "classify", "regress"}},
    {"fitted", "table", "none", "what was learned from the training part"}};

}  // namespace

extern const SourceDef source_csv;
const SourceDef source_csv{
    .type = "csv",
    .doc =
        "A table 'file' (also .gz, .xz and .zst). Options: target (the last column; a name or number; false: none), weight, features, "
        "drop, categorical, "
        "dates, "
        "header (found out), delimiter (','), encoding, decimal ('.'), missing ('error', 'mean' or 'skip'), missing_values, task ('auto', "
        "'classify' "
        "or 'regress')",
    .schema = {.options = kCsvOptions, .positional = kCsvPositional},
    .open = open_csv};

}  // namespace perigee
