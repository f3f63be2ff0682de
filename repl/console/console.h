// The prompt: an editor, a session, and the loop between them.
#pragma once

#include <string>
#include <vector>

namespace perigee {

struct ConsoleOptions {
  std::string prelude;                   // Lua that is run before all else, without a word
  std::string script;                    // run first, if not empty
  std::vector<std::string> expressions;  // run instead of reading any input
};

// The exit code: 0, 1 after an error without a terminal, 130 after Ctrl-C there.
int run_console(const ConsoleOptions& options);

bool at_terminal();     // standard input and output are one
bool input_is_given();  // standard input is a file or a pipe: perigee < FILE

}  // namespace perigee
