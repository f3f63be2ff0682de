// Parquet and Arrow: whatever is accepted has columns as long as its rows, and can be written as text.
#include "src/io/codec/blocks.h"
#include "tests/fuzz/tables/table_reading.h"

namespace {

using namespace perigee;
using namespace perigee::tables;

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
  if (data[0] != 0 || size < 2) return fuzz_table(data, size, "input");
  try {
    decompress(fuzz_bytes(data, size).subspan(2), data[1]);
  } catch (const Error&) {}
  return 0;
}
