// Record files: arbitrary bytes, or a small file that is well made and then changed with its hashes set right, so that what lies behind them is
// reached.
#include <cstring>

#include "src/core/error.h"
#include "src/io/digest.h"
#include "src/io/record/shard.h"
#include "src/io/record/shard_format.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace perigee;
using namespace perigee::records;

void read_all(const Shard& shard) {
  Bytes memory;
  size_t sum = 0;
  for (int64_t b = 0; b < shard.blocks() && b < 64; ++b) {
    const auto look = [&](const ShardBlock& block) {
      for (int64_t r = 0; r < shard.rows(b) && r < 64; ++r) {
        if (shard.layout().stride > 0) sum += std::to_integer<size_t>(block.row(r)[shard.layout().stride - 1]);
        for (size_t p = 0; p < shard.layout().variable; ++p)
          for (const std::byte byte : block.piece(r, p)) sum += std::to_integer<size_t>(byte);
      }
    };
    look(shard.block(b, memory));
    if (!shard.compressed(b)) look(shard.block(b));
    shard.expect(b * shard.layout().per_block);
  }
  PERIGEE_FUZZ_CHECK(sum != SIZE_MAX);
}

// The tail's hash, and that of each block that lies in the file.
void set_hashes_right(Bytes& file) {
  using namespace records::format;
  if (file.size() < kHeader + kTail) return;
  const size_t tail = file.size() - kTail;
  const uint64_t table = number_at(file.data() + tail), blocks = number_at(file.data() + tail + 8);
  if (table > tail || blocks > (tail - table) / kEntry) return;
  for (uint64_t b = 0; b < blocks; ++b) {
    std::byte* entry = file.data() + table + b * kEntry;
    const uint64_t offset = number_at(entry), stored = number_at(entry + 8);
    if (offset <= table && stored <= table - offset) put_number(entry + 24, xxh3_64(std::span(file).subspan(offset, stored)));
  }
  put_number(file.data() + tail + 32, xxh3_64(std::span(file).subspan(table, tail - table)));
}

}  // namespace

// The first byte: 0: as it is; 1: the header is left out of the input, since it is 4096 known bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  using namespace records::format;
  const auto input = fuzz_bytes(data + 1, size - 1);
  Bytes file;
  if (data[0] & 1) {
    file.resize(kHeader);
    std::memcpy(file.data(), kMagic, kMagicBytes);
    put_number(file.data() + kMagicBytes, kVersion);
  }
  file.insert(file.end(), input.begin(), input.end());
  if (data[0] & 2) set_hashes_right(file);
  try {
    read_all(Shard("input", file));
  } catch (const Error&) {}
  return 0;
}
