// The first byte chooses the format, the rest is the file. What comes out never passes the limit.
#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 16;
  if (size == 0) return 0;
  const std::span<const std::byte> file = perigee::fuzz_bytes(data + 1, size - 1);
  try {
    perigee::Bytes plain;
    if (data[0] % 3 == 0) plain = perigee::gunzip(file, "input", kLimit);
    else if (data[0] % 3 == 1) plain = perigee::unxz(file, "input", kLimit);
    else plain = perigee::inflate_raw(file, "input", kLimit);
    PERIGEE_FUZZ_CHECK(plain.size() <= kLimit);
    PERIGEE_FUZZ_CHECK(perigee::gunzip(perigee::gzip(plain), "again", kLimit) == plain);
  } catch (const perigee::Error&) {}
  return 0;
}
