// Whatever the YAML reader accepts is a JSON value that can be written and read.
#include "src/io/yaml.h"

#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const perigee::Json value = perigee::parse_yaml({reinterpret_cast<const char*>(data), size}, "input");
    PERIGEE_FUZZ_CHECK(perigee::Json::parse(value.dump(), "written") == value);
  } catch (const perigee::Error&) {}
  return 0;
}
