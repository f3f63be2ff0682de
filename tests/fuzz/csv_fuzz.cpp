// The first byte chooses delimiter and header, the rest is the table. Every cell lies in the input or in the table's own text.
#include "src/io/csv.h"

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    const perigee::CsvTable table = perigee::parse_csv(text, "input", data[0] % 2 ? ',' : ';', data[0] % 4 < 2);
    PERIGEE_FUZZ_CHECK(static_cast<int64_t>(table.cells.size()) == table.rows * table.columns);
    PERIGEE_FUZZ_CHECK(table.lines.size() == static_cast<size_t>(table.rows));
    size_t bytes = 0;
    double value = 0;
    for (const std::string_view cell : table.cells) {
      for (const char c : cell) bytes += c == '\n' || c != '\n';  // every byte can be read
      perigee::csv_number(cell, value);
    }
    PERIGEE_FUZZ_CHECK(bytes <= text.size());
  } catch (const perigee::Error&) {}
  return 0;
}
