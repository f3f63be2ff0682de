#include "src/io/idx.h"

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const perigee::IdxArray array = perigee::parse_idx(perigee::fuzz_bytes(data, size), "input");
    size_t bytes = perigee::dtype_bytes(array.dtype);
    for (int i = 0; i < array.shape.rank(); ++i) bytes *= static_cast<size_t>(array.shape[i]);
    PERIGEE_FUZZ_CHECK(array.data.size() == bytes);
    unsigned sum = 0;  // every byte that was promised can be read
    for (const std::byte b : array.data) sum += std::to_integer<unsigned>(b);
    PERIGEE_FUZZ_CHECK(sum <= 255u * array.data.size());
  } catch (const perigee::Error&) {}
  return 0;
}
