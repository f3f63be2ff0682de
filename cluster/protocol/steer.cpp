#include "cluster/protocol/steer.h"

#include "src/core/config.h"

namespace perigee {
namespace {

constexpr int64_t kMostSteps = 1'000'000;

}  // namespace

SteerCommand read_steer(const Json& command) {
  const Config config(command, "command", ErrorKind::usage);
  SteerCommand read;
  if (config.has("kick")) read.kick = static_cast<WorkerId>(config.integer_in("kick", 1, UINT32_MAX));
  if (config.has("pause")) read.pause = config.boolean("pause", false);
  if (config.has("every")) read.every = config.integer_in("every", 1, kMostSteps);
  if (config.has("set")) {
    const Config set = config.object("set");
    read.option = set.string("option");
    if (const Json* value = set.raw("value")) read.value = *value;
    if (read.option.empty() || (!read.value.is_number() && !read.value.is_bool() && !read.value.is_object()))
      set.fail("value", "is no value of an option", read.value.dump(), "a number, a boolean or a schedule");
    set.reject_unread();
  }
  for (const auto& [key, flag] : {std::pair{"checkpoint", &read.checkpoint}, {"stop", &read.stop}})
    if (config.has(key) && !(*flag = config.boolean(key, false))) config.fail(key, "cannot be taken back", "false", "true");
  config.reject_unread();
  const int asked =
      read.kick.has_value() + read.pause.has_value() + read.every.has_value() + !read.option.empty() + read.checkpoint + read.stop;
  if (asked != 1 || command.as_object().size() != 1)
    throw Error(ErrorKind::usage, {.where = "command",
                                   .what = "is not one",
                                   .got = std::to_string(command.as_object().size()) + " members",
                                   .expected = "one of kick, pause, every, set, checkpoint, stop"});
  return read;
}

std::string SteerCommand::text() const {
  if (kick) return "kick worker " + std::to_string(*kick);
  if (pause) return *pause ? "pause" : "go on";
  if (every) return "every = " + std::to_string(*every);
  if (!option.empty()) return option + " = " + value.dump();
  return checkpoint ? "checkpoint" : "stop";
}

}  // namespace perigee
