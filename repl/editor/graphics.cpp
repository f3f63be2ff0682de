#include "repl/editor/graphics.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace perigee {
namespace {

// Every terminal answers that it is one and what it can (primary device attributes); "4" among them is sixel.
constexpr std::string_view kAskAttributes = "\x1b[c", kAttributes = "\x1b[?";
// Only what can skip a string that it does not know is asked further: "62" and above, terminals of the VT200 and later.
constexpr std::string_view kAskKitty = "\x1b_Gi=7141,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c", kKittyAnswers = "\x1b_Gi=7141;OK\x1b\\";
constexpr std::string_view kKittyBegins = "\x1b_G", kStringEnds = "\x1b\\";
constexpr int kCanSkipStrings = 61;

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// The whole of an answer to kAskAttributes, from its first letter; empty: it is not there yet.
std::string_view attributes_in(std::string_view bytes) {
  for (size_t at = bytes.find(kAttributes); at != bytes.npos; at = bytes.find(kAttributes, at + 1)) {
    const size_t end = bytes.find_first_not_of("0123456789;", at + kAttributes.size());
    if (end != bytes.npos && bytes[end] == 'c') return bytes.substr(at, end + 1 - at);
  }
  return {};
}

std::string typed_meanwhile;

// All but the terminal's answers.
void keep_typed(std::string bytes) {
  if (const std::string_view found = attributes_in(bytes); !found.empty())
    bytes.erase(static_cast<size_t>(found.data() - bytes.data()), found.size());
  const size_t begin = bytes.find(kKittyBegins);
  if (const size_t end = begin == bytes.npos ? begin : bytes.find(kStringEnds, begin); end != bytes.npos)
    bytes.erase(begin, end + kStringEnds.size() - begin);
  typed_meanwhile += bytes;
}

// All that came until the attributes were complete, or the time was up.
std::string answer_to(std::string_view question) {
  std::string bytes;
  if (!write_all(question)) return bytes;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
  while (attributes_in(bytes).empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&input, 1, static_cast<int>(left)) <= 0) break;
    char read_bytes[256];
    const ssize_t count = ::read(STDIN_FILENO, read_bytes, sizeof read_bytes);
    if (count <= 0) break;
    bytes.append(read_bytes, static_cast<size_t>(count));
  }
  keep_typed(bytes);
  return bytes;
}

bool has_attribute(std::string_view attributes, std::string_view wanted) {
  std::string_view list = attributes.substr(kAttributes.size(), attributes.size() - kAttributes.size() - 1);
  list.remove_prefix(std::min(list.find(';'), list.size()));  // the first is the kind of terminal
  while (!list.empty()) {
    list.remove_prefix(1);
    const size_t end = std::min(list.find(';'), list.size());
    if (list.substr(0, end) == wanted) return true;
    list.remove_prefix(end);
  }
  return false;
}

const char* ask_terminal() {
  const std::string first = answer_to(kAskAttributes);
  const std::string_view attributes = attributes_in(first);
  if (attributes.empty()) return "";
  if (std::atoi(std::string(attributes.substr(kAttributes.size())).c_str()) >= kCanSkipStrings &&
      answer_to(kAskKitty).find(kKittyAnswers) != std::string::npos)
    return "kitty";
  return has_attribute(attributes, "4") ? "sixel" : "";
}

// The terminal hands on each byte and shows none of it meanwhile.
const char* ask_in_peace() {
  termios before = {};
  if (tcgetattr(STDIN_FILENO, &before) != 0) return "";
  // Keys that were typed ahead would be read with the answer and lost.
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, 0) > 0) return nullptr;
  termios mode = before;
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSANOW, &mode) != 0) return "";
  const char* kind = ask_terminal();
  tcsetattr(STDIN_FILENO, TCSANOW, &before);
  return kind;
}

// Null: the terminal could not be asked now.
const char* find_graphics() {
  if (const char* wanted = std::getenv("PERIGEE_GRAPHICS"); wanted && *wanted) {
    for (const char* kind : {"kitty", "sixel"})
      if (std::strcmp(wanted, kind) == 0) return kind;
    if (std::strcmp(wanted, "none") != 0 && std::strcmp(wanted, "braille") != 0)
      std::fprintf(stderr, "warning: PERIGEE_GRAPHICS is '%s'; expected kitty, sixel, braille or none\n", wanted);
    return "";
  }
  const char* terminal = std::getenv("TERM");
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !terminal || !*terminal || std::strcmp(terminal, "dumb") == 0) return "";
  std::fflush(stdout);
  return ask_in_peace();
}

}  // namespace

const char* terminal_graphics() {
  static const char* known = nullptr;
  if (!known) known = find_graphics();
  return known ? known : "";
}

std::string take_typed_meanwhile() { return std::exchange(typed_meanwhile, {}); }

}  // namespace perigee
