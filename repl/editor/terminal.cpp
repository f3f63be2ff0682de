#include "repl/editor/terminal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace perigee {
namespace {

constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l\x1b[0m";
constexpr int kFatal[] = {SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int kWaking[] = {SIGWINCH, SIGCONT, SIGINT};

// The state that signal handlers may touch.
std::atomic<bool> interrupt{false}, resized{false}, continued{false}, must_restore{false};
int terminal_input = -1, terminal_output = -1;
std::atomic<int> waking_event{-1};
termios as_found;
static_assert(std::atomic<bool>::is_always_lock_free);

void restore() {
  if (!must_restore.exchange(false)) return;
  const int error = errno;
  tcsetattr(terminal_input, TCSADRAIN, &as_found);
  if (::write(terminal_output, kPasteOff.data(), kPasteOff.size()) < 0) errno = error;
  errno = error;
}

void on_waking(int signal) {
  if (signal == SIGINT) interrupt = true;
  else if (signal == SIGWINCH) resized = true;
  else continued = true;
  // The handler may run on another thread than the one that waits.
  const int error = errno;
  const uint64_t one = 1;
  if (::write(waking_event, &one, sizeof one) < 0) errno = error;
  errno = error;
}

void on_fatal(int signal) {
  restore();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void catch_signal(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read that waits must end
  sigaction(signal, &action, nullptr);
}

}  // namespace

std::atomic<bool>& Terminal::interrupted() { return interrupt; }

Terminal::Terminal(int input, int output) : input_(input), output_(output), calls_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  interactive_ = isatty(input) == 1 && isatty(output) == 1;
  const char* kind = std::getenv("TERM");
  capable_ = interactive_ && kind && *kind && std::strcmp(kind, "dumb") != 0;
  const char* no_colour = std::getenv("NO_COLOR");
  coloured_ = capable_ && !(no_colour && *no_colour);
  std::signal(SIGPIPE, SIG_IGN);
  waking_event = calls_;
  catch_signal(SIGINT, on_waking);
  if (!interactive_) return;
  terminal_input = input;
  terminal_output = output;
  if (tcgetattr(input, &as_found) != 0) capable_ = false;
  for (const int signal : kFatal) catch_signal(signal, on_fatal);
  for (const int signal : kWaking) catch_signal(signal, on_waking);
}

Terminal::~Terminal() {
  cooked();
  waking_event = -1;
  if (calls_ >= 0) close(calls_);
}

void Terminal::raw() {
  if (!capable_) return;
  // The shell's settings, or what a program started with `!` has made of them. When the program was stopped and goes on, the terminal may
  // have any.
  if (!raw_ && tcgetattr(input_, &as_found) != 0) return;
  termios mode = as_found;
  mode.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
  mode.c_cflag |= CS8;
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  must_restore = true;
  tcsetattr(input_, TCSADRAIN, &mode);
  raw_ = true;
  write(kPasteOn);
}

void Terminal::cooked() {
  if (!raw_) return;
  raw_ = false;
  restore();
}

int Terminal::columns() const {
  winsize size = {};
  return ioctl(output_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int Terminal::rows() const {
  winsize size = {};
  return ioctl(output_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

Terminal::Wake Terminal::wait(int timeout_ms, std::string* bytes) {
  // Signals are let in only while ppoll waits, so that none is missed between the look at its flag and the wait.
  sigset_t waking, before;
  sigemptyset(&waking);
  for (const int signal : kWaking) sigaddset(&waking, signal);
  pthread_sigmask(SIG_BLOCK, &waking, &before);
  pollfd files[] = {{input_, POLLIN, 0}, {calls_, POLLIN, 0}};
  const timespec limit{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  const bool flagged = interrupt || resized || continued;
  const int ready = flagged ? -1 : ppoll(files, 2, timeout_ms < 0 ? nullptr : &limit, &before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (interrupt.exchange(false)) return Wake::interrupted;
  if (continued.exchange(false)) return Wake::continued;
  if (resized.exchange(false)) return Wake::resized;
  if (ready == 0) return Wake::late;
  if (uint64_t calls; ready > 0 && files[1].revents != 0 && ::read(calls_, &calls, sizeof calls) > 0) return Wake::called;
  char part[4096];
  const ssize_t count = read(input_, part, sizeof part);
  if (count > 0) {
    bytes->assign(part, static_cast<size_t>(count));
    return Wake::bytes;
  }
  return count < 0 && (errno == EINTR || errno == EAGAIN) ? Wake::late : Wake::closed;
}

void Terminal::call() {
  const uint64_t one = 1;
  // It can only fail where a wait is ended already.
  if (::write(calls_, &one, sizeof one) < 0) return;
}

void Terminal::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(output_, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd file{output_, POLLOUT, 0};
      if (poll(&file, 1, 1000) <= 0) return;
    } else if (errno != EINTR) {
      return;  // the terminal is gone; the next read says so
    }
  }
}

void Terminal::suspend() {
  cooked();
  raise(SIGTSTP);
}

}  // namespace perigee
