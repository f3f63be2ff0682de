// Text of other encodings as UTF-8, by the iconv of the C library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace perigee {

// As the documentation of every option "encoding" has it.
inline constexpr const char* kEncodingDoc =
    "of the text: utf-8, utf-16, latin-1, windows-1252, gb18030, shift_jis or another that iconv knows";
inline constexpr const char* kEncodingFallback = "utf-8, or utf-16 where a byte order mark says so";

// Takes a text part by part; a character may lie on both sides of a border.
class TextDecoder {
 public:
  // Error(data) for an encoding that the C library does not know.
  TextDecoder(const std::string& encoding, const std::string& where);
  ~TextDecoder();
  TextDecoder(const TextDecoder&) = delete;
  TextDecoder& operator=(const TextDecoder&) = delete;

  // Appends what `bytes` say; `last`: nothing follows them. A byte order mark is left out. Error(data) at line and byte of the first byte that
  // is no text of the encoding.
  void add(std::string_view bytes, bool last, std::string& out);

 private:
  void add_utf8(std::string& out, bool last);
  void add_other(std::string& out, bool last);
  [[noreturn]] void fail(size_t at, const std::string& out, const char* what) const;

  std::string encoding_, where_;
  void* converter_ = nullptr;  // null: UTF-8, which is only checked
  std::string rest_;           // what has not been taken yet
  uint64_t taken_ = 0;         // bytes before rest_
  int64_t lines_ = 0;          // that ended in what was written before this call
  size_t begin_ = 0;           // where in `out` this call began to write
  bool first_ = true;
};

// The encoding that a byte order mark of two bytes tells; empty when there is none.
std::string marked_encoding(std::string_view head);

// All of a text, as its encoding says; with an empty one, as marked_encoding() says. Where it is UTF-8 by agreement, it is returned as it is.
struct DecodedText {
  std::string_view text;
  std::shared_ptr<const void> owner;  // of it, unless it is the given one
};
DecodedText decoded_text(std::string_view bytes, const std::string& encoding, const std::string& where);

}  // namespace perigee
