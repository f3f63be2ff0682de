// Lines about a job that is trained several times (repl/commands/train/repeated.h).
#pragma once

#include <string>

#include "src/core/json.h"

namespace perigee {

// The text of the events "repeat_end" and "summary"; empty for any other.
std::string repeats_text(const Json& event);

}  // namespace perigee
