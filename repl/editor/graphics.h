// Which pictures the terminal shows.
#pragma once

namespace perigee {

// "kitty", "sixel", or "" for text alone. The terminal at standard input and output is asked once, on the first call, and has kAnswerMs to
// answer; PERIGEE_GRAPHICS=kitty, sixel, braille or none says it instead. Not while a line is edited.
const char* terminal_graphics();
inline constexpr int kAnswerMs = 250;

}  // namespace perigee
