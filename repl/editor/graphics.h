// Which pictures the terminal shows.
#pragma once

#include <string>

namespace perigee {

// "kitty", "sixel", or "" for text alone. The terminal at standard input and output is asked once, on the first call, and has kAnswerMs to
// answer; PERIGEE_GRAPHICS=kitty, sixel, braille or none says it instead. Not while a line is edited.
const char* terminal_graphics();
// Keys that were typed while the terminal was asked, and came in with its answers; once. They belong to the next line that is edited.
std::string take_typed_meanwhile();
inline constexpr int kAnswerMs = 250;

}  // namespace perigee
