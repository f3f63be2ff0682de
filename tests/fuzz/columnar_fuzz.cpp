// Parquet and Arrow: whatever is accepted has columns as long as its rows, and can be written as text.
#include "src/core/error.h"
#include "src/data/table/columnar/columnar.h"
#include "src/io/codec/blocks.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace perigee;
using namespace perigee::tables;

void read_all(const ColumnarFile& file) {
  for (size_t c = 0; c < file.schema().columns.size() && c < 64; ++c) {
    if (!file.refusal(c).empty()) continue;
    const size_t one[] = {c};
    for (int64_t chunk = 0; chunk < file.chunks() && chunk < 8; ++chunk) {
      try {
        const Frame frame = file.read(chunk, one);
        PERIGEE_FUZZ_CHECK(frame.columns.size() == 1 && frame.columns[0].size() == frame.rows);
        PERIGEE_FUZZ_CHECK(frame.columns[0].missing.empty() || frame.columns[0].missing.size() == static_cast<size_t>(frame.rows));
        for (int64_t r = 0; r < frame.rows && r < 100; ++r) cell_text(frame.columns[0], frame.schema.columns[0], r);
      } catch (const Error&) {}
    }
  }
}

void decompress(std::span<const std::byte> in, uint8_t kind) {
  Bytes out(kind * size_t{16});
  switch (kind % 5) {
    case 0: return snappy_decompress(in, out, "input");
    case 1: return lz4_block_decompress(in, out, "input");
    case 2: return lz4_frame_decompress(in, out, "input");
    case 3: return gzip_decompress(in, out, "input");
    default: lz4_hadoop_decompress(in, out, "input");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto input = fuzz_bytes(data, size);
  try {
    if (data[0] == 0 && size > 1) decompress(input.subspan(2), data[1]);
    else if (const auto file = open_columnar_content("input", input)) read_all(*file);
  } catch (const Error&) {}
  return 0;
}
