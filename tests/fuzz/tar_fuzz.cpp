#include "src/io/archive/tar.h"

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> archive = perigee::fuzz_bytes(data, size);
  try {
    for (const perigee::TarEntry& entry : perigee::tar_entries(archive, "input")) {
      PERIGEE_FUZZ_CHECK(entry.content.data() >= archive.data());
      PERIGEE_FUZZ_CHECK(entry.content.data() + entry.content.size() <= archive.data() + archive.size());
    }
  } catch (const perigee::Error&) {}
  return 0;
}
