#include "repl/signals.h"

#include <unistd.h>
#include <csignal>
#include <cstring>

namespace perigee {
namespace {

std::atomic<bool> stop{false};
std::atomic<int> last_signal{SIGINT};
std::atomic<const char*> message{""};

// Only what is safe in a handler: atomics without locks, write, _exit. A closed terminal may send SIGHUP twice, itself and by the shell.
void handle(int signal) {
  if (stop.exchange(true)) {
    if (signal == SIGHUP) return;
    _exit(128 + signal);
  }
  last_signal = signal;
  const char* text = message;
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

}  // namespace

void watch_signals(const char* acknowledgement) {
  static_assert(std::atomic<const char*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
  message = acknowledgement;
  for (const int signal : {SIGINT, SIGTERM}) watch_signal(signal);
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) watch_signal(SIGHUP);  // nohup ignores it
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away must not end a training run
}

void acknowledge_with(const char* text) { message = text; }

void watch_signal(int signal) {
  struct sigaction action = {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

const std::atomic<bool>& stop_requested() { return stop; }
int stop_exit_code() { return 128 + last_signal; }

}  // namespace perigee
