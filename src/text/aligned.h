// A text that was changed, and for each of its bytes the bytes of the original that it came from. The rules of where added, replaced and
// removed characters belong are those of Hugging Face's tokenizers, so that offsets agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/unicode.h"

namespace perigee {

// From one byte of a text to another, the second not included.
struct TextSpan {
  uint32_t from = 0, to = 0;
  bool operator==(const TextSpan&) const = default;
};

class Aligned {
 public:
  Aligned() = default;
  Aligned(std::string_view text, uint32_t offset);  // unchanged; it begins at `offset` of the original

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  TextSpan origin(size_t from, size_t to) const;  // of a stretch of text()
  Aligned slice(size_t from, size_t to) const;

  // The new characters of all of the text; `removed` old ones at its beginning have gone.
  void transform(const std::vector<Change>& changes, size_t removed = 0);
  void keep(const std::function<bool(char32_t)>& wanted);
  // Each character by one or several, which the function appends.
  void map(const std::function<void(char32_t, std::vector<Change>&)>& change);
  void replace(const std::vector<TextSpan>& matches, std::string_view with);  // matches in order, none in another
  // Another text; `origins` are places of each of its bytes in the present one.
  void become(std::string text, const std::vector<TextSpan>& origins);
  void prepend(std::string_view before);  // nothing where there is no text

 private:
  std::string text_;
  std::vector<TextSpan> spans_;
};

// A character of valid UTF-8 at `at`, which moves behind it.
char32_t next_character(std::string_view text, size_t& at);

}  // namespace perigee
