// The editor of a prompt's input: a state machine that is fed with bytes and gives back whole inputs and what the terminal is to show. It
// never waits and never touches a file descriptor, so that it can live in any loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

struct Candidate {
  std::string text;  // what would stand in the place of what was typed
  std::string note;  // shown beside it; may be empty
};

struct Completion {
  size_t from = 0;  // candidates replace the bytes from here to the cursor
  std::vector<Candidate> candidates;
};

enum class Colour : uint8_t { plain, keyword, string, number, comment, special };

// The editor's view of the language that is typed.
class Language {
 public:
  virtual ~Language() = default;
  virtual bool finished(const std::string& text) = 0;  // whether Enter ends the input or begins another line
  virtual Completion complete(const std::string& text, size_t cursor) = 0;
  virtual std::vector<Colour> colours(std::string_view text) const = 0;  // one for each byte
  virtual size_t indentation(std::string_view text) const = 0;           // blanks in front of a line that follows `text`
};

class Editor {
 public:
  enum class Event : uint8_t { more, line, end, suspend };  // more: everything that was fed is handled

  virtual ~Editor() = default;
  virtual void begin() = 0;  // asks for a new input
  virtual void feed(std::string_view bytes) = 0;
  // Handles what was fed, up to the next event. What was typed ahead stays for the next begin().
  virtual Event next() = 0;
  virtual const std::string& line() const = 0;  // after Event::line: the input, without its last newline
  // True when the next byte decides what the last ones mean; if none comes within 50 ms, expire() takes them as they are.
  virtual bool undecided() const = 0;
  virtual void expire() = 0;
  virtual void resize(int columns, int rows) = 0;
  virtual std::string take_output() = 0;  // bytes for the terminal
  virtual std::string hide() = 0;         // bytes that wipe the input away; the next begin() shows it again
};

}  // namespace perigee
