// The terminal or pipe that a prompt talks to. While a line is typed the terminal hands on every key (raw); while one runs it is as the
// shell left it, so that Ctrl-C is a signal. It is put back when the program ends, also by a signal.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace perigee {

class Terminal {
 public:
  Terminal(int input, int output);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool interactive() const { return interactive_; }  // a person is at both ends
  bool capable() const { return capable_; }          // and the terminal understands control sequences
  bool coloured() const { return coloured_; }        // and colour is wanted (NO_COLOR)

  void raw();
  void cooked();
  int columns() const;
  int rows() const;

  // How a wait for input ended. continued: the program was stopped and goes on, or something else wrote on the terminal. called: call().
  enum class Wake { bytes, closed, late, resized, continued, interrupted, called };
  Wake wait(int timeout_ms, std::string* bytes);  // -1: without an end

  void call();  // ends a wait, or the next one; any thread
  void write(std::string_view bytes);
  void suspend();  // as Ctrl-Z does; returns when the program goes on

  // Set by Ctrl-C while a line runs; the code that answers it clears it.
  static std::atomic<bool>& interrupted();

 private:
  int input_, output_, calls_;  // calls_: an eventfd
  bool interactive_ = false, capable_ = false, coloured_ = false, raw_ = false;
};

}  // namespace perigee
