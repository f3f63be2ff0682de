// Remedies in the words of who is told: errors advise what one writes after `perigee`, and a script or a program in C++ writes it otherwise.
#pragma once

#include <string>

namespace perigee {

enum class Voice { command, script, library };

// "resume it with --set lr=1" for the command line is "resume it with set = { "lr=1" }" for a script, and "resume it with lr=1 in the job" for a
// program. Other text stays as it is.
std::string advice_for(Voice voice, std::string text);

}  // namespace perigee
