// Tables: the first byte chooses the dialect, the rest is CSV, JSON Lines, a formula or a schema. What is read has the same rows in one
// piece and in small ones.
#include "src/core/error.h"
#include "src/data/table/expression/expression.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/time_text.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace perigee::tables;

Frame read(const std::string& text, uint8_t kind, size_t chunk_bytes) {
  ReadOptions options;
  options.chunk_bytes = chunk_bytes;
  if (kind & 1) options.dialect.quote = 0;
  if (kind & 2) options.dialect.comment = '#';
  if (kind & 4) options.dialect.trim = true;
  if (kind & 8) options.dialect.header = true;
  if (kind & 16) options.dialect.delimiter = ';', options.find_delimiter = false;
  return TableFile("input", options, text).all(uint64_t{1} << 26);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    if (data[0] & 128) {
      int64_t ms = 0;
      std::string out;
      if (parse_iso_time(text, ms)) append_time(ms, "", out);
      if (data[0] & 64) schema_of(perigee::Json::parse(text, "input"), "input");
      else Expression(text, "input").type({.columns = {{.name = "a", .type = Type::integer}, {.name = "b"}}});
      return 0;
    }
    const Frame whole = read(text, data[0], size_t{1} << 20);
    for (size_t c = 0; c < whole.columns.size(); ++c) PERIGEE_FUZZ_CHECK(whole.columns[c].size() == whole.rows);
    const Frame parts = read(text, data[0], 16);
    PERIGEE_FUZZ_CHECK(parts.rows == whole.rows && parts.columns.size() == whole.columns.size());
    for (size_t c = 0; c < whole.columns.size(); ++c)
      for (int64_t r = 0; r < whole.rows; ++r)
        PERIGEE_FUZZ_CHECK(cell_text(whole.columns[c], whole.schema.columns[c], r) ==
                           cell_text(parts.columns[c], parts.schema.columns[c], r));
  } catch (const perigee::Error&) {}
  return 0;
}
