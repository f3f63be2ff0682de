// Ctrl-C, SIGTERM and SIGHUP (a closed terminal): the first is acknowledged at once and sets a flag that is read between steps; a second one,
// unless it is SIGHUP, ends the program.
#pragma once

#include <atomic>

namespace perigee {

// `acknowledgement` is written to standard error from within the handler.
void watch_signals(const char* acknowledgement);
void acknowledge_with(const char* text);  // another acknowledgement; outlives the program's signals
void watch_signal(int signal);            // one more that means the same
const std::atomic<bool>& stop_requested();
// 128 + the signal that asked to stop, as shells count.
int stop_exit_code();

}  // namespace perigee
