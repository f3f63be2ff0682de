// A shard of Mosaic Streaming.
#include "src/data/table/columnar/records/mds.h"
#include "tests/fuzz/tables/table_reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return perigee::tables::fuzz_table(
      data, size, [](std::span<const std::byte> input) { return perigee::tables::open_mds_shard("input", perigee::as_text(input)); });
}
