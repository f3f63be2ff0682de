// A request to a run: one command, all of it within its bounds, or an Error.
#include "cluster/protocol/steer.h"
#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

using namespace perigee;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const SteerCommand command = read_steer(Json::parse({reinterpret_cast<const char*>(data), size}, "input"));
    const int asked = command.kick.has_value() + command.pause.has_value() + command.every.has_value() + !command.option.empty() +
                      command.checkpoint + command.stop;
    PERIGEE_FUZZ_CHECK(asked == 1 && !command.text().empty());
    PERIGEE_FUZZ_CHECK(!command.kick || *command.kick > 0);
    PERIGEE_FUZZ_CHECK(!command.every || (*command.every > 0 && *command.every <= 1'000'000));
    PERIGEE_FUZZ_CHECK(command.option.empty() ? command.value.is_null()
                                              : command.value.is_number() || command.value.is_bool() || command.value.is_object());
  } catch (const Error&) {}
  return 0;
}
