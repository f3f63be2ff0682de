// Whatever the reader accepts, the writer writes back to the same value.
#include "src/core/error.h"
#include "src/core/json.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const perigee::Json value = perigee::Json::parse(text, "input");
    const perigee::Json again = perigee::Json::parse(value.dump(), "written");
    PERIGEE_FUZZ_CHECK(again == value);
    PERIGEE_FUZZ_CHECK(perigee::Json::parse(value.dump(2), "indented") == value);
  } catch (const perigee::Error&) {}
  return 0;
}
