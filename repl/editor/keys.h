// Terminal bytes as keys. Names are those of Emacs' manual: "C-a", "M-b", "<Up>", "M-<Enter>".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace perigee {

struct Key {
  std::string name;  // empty: text was typed
  std::string text;  // what was typed, or pasted ("<Paste>"): valid UTF-8
};

class KeyDecoder {
 public:
  void feed(std::string_view bytes) { bytes_.append(bytes); }
  std::optional<Key> next();  // nothing: more bytes are needed
  bool undecided() const { return !bytes_.empty() && !pasting_; }
  void expire();  // no byte came in time: an Escape is the key itself, and half a character is none

 private:
  std::optional<Key> take(size_t count, std::string name);
  std::optional<Key> control(unsigned char byte);
  std::optional<Key> character();
  std::optional<Key> escape();
  std::optional<Key> sequence();
  std::optional<Key> answer();
  std::optional<Key> paste();

  std::string bytes_;  // fed and not yet a key
  bool pasting_ = false;
};

}  // namespace perigee
