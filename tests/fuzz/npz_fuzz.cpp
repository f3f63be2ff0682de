#include "src/core/error.h"
#include "src/io/archive/zip.h"
#include "src/io/npy.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 20;
  const std::span<const std::byte> archive = perigee::fuzz_bytes(data, size);
  try {
    uint64_t bytes = 0;
    for (const auto& [name, array] : perigee::parse_npz(archive, "input", kLimit)) bytes += array.bytes();
    PERIGEE_FUZZ_CHECK(bytes <= 8 * kLimit);  // small types are widened
  } catch (const perigee::Error&) {}
  try {
    for (const perigee::ZipEntry& entry : perigee::zip_entries(archive, "input")) {
      if (entry.size <= kLimit) PERIGEE_FUZZ_CHECK(perigee::zip_content(archive, entry, "input").size() == entry.size);
    }
  } catch (const perigee::Error&) {}
  return 0;
}
