// Accepted input is written and read back to the same array.
#include "src/io/npy.h"

#include <algorithm>

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const perigee::Tensor array = perigee::parse_npy(perigee::fuzz_bytes(data, size), "input");
    const perigee::Bytes written = perigee::npy_bytes(array);
    const perigee::Tensor again = perigee::parse_npy(written, "written");
    PERIGEE_FUZZ_CHECK(again.dtype() == array.dtype() && again.shape() == array.shape());
    const auto* x = array.data<unsigned char>();
    PERIGEE_FUZZ_CHECK(array.bytes() == 0 || std::equal(x, x + array.bytes(), again.data<unsigned char>()));
  } catch (const perigee::Error&) {}
  return 0;
}
