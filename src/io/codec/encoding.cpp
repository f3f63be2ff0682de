#include "src/io/codec/encoding.h"

#include <iconv.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "src/core/error.h"
#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr const char* kUsual[] = {"utf-8",  "utf-16",    "utf-16le", "utf-16be", "latin-1", "iso-8859-15", "windows-1252", "windows-1251",
                                  "koi8-r", "shift_jis", "euc-jp",   "euc-kr",   "big5",    "gb18030",     "ascii"};
constexpr size_t kEncodingBlock = size_t{1} << 16;

std::string lowered(std::string name) {
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return name;
}

// As iconv writes it. A slash would begin a suffix that lets it skip what is wrong.
std::string iconv_name(const std::string& encoding) {
  const std::string name = lowered(encoding);
  if (name == "latin-1" || name == "latin1" || name == "latin_1") return "ISO-8859-1";
  return name.find('/') == name.npos ? name : "";
}

bool is_utf8_name(const std::string& encoding) {
  const std::string name = lowered(encoding);
  return name == "utf-8" || name == "utf8" || name == "utf_8";
}

[[noreturn]] void unknown(const std::string& encoding, const std::string& where) {
  std::string listed;
  for (const char* name : kUsual) listed += std::string(listed.empty() ? "" : ", ") + name;
  throw Error(ErrorKind::data, {.where = where,
                                .what = "there is no such encoding of text",
                                .got = "'" + printable(encoding.substr(0, 60)) + "'",
                                .expected = listed + ", or another of `iconv -l`",
                                .hint = nearest_hint(lowered(encoding), {std::begin(kUsual), std::end(kUsual)})});
}

// Bytes of ASCII from `at` on, eight at a time.
size_t after_ascii(std::string_view text, size_t at) {
  uint64_t eight = 0;
  while (at + 8 <= text.size()) {
    std::memcpy(&eight, text.data() + at, 8);
    if ((eight & 0x8080808080808080u) != 0) break;
    at += 8;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

TextDecoder::TextDecoder(const std::string& encoding, const std::string& where) : encoding_(encoding), where_(where) {
  if (is_utf8_name(encoding)) return;
  const std::string name = iconv_name(encoding);
  const iconv_t opened = name.empty() ? reinterpret_cast<iconv_t>(-1) : ::iconv_open("UTF-8", name.c_str());
  if (opened == reinterpret_cast<iconv_t>(-1)) unknown(encoding, where);
  converter_ = opened;
}

TextDecoder::~TextDecoder() {
  if (converter_ != nullptr) ::iconv_close(static_cast<iconv_t>(converter_));
}

void TextDecoder::add(std::string_view bytes, bool last, std::string& out) {
  rest_ += bytes;
  begin_ = out.size();
  if (converter_ == nullptr) add_utf8(out, last);
  else add_other(out, last);
  if (first_ && out.size() >= begin_ + 3) {
    first_ = false;
    if (std::string_view(out).substr(begin_).starts_with("\xef\xbb\xbf")) out.erase(begin_, 3);
  }
  lines_ += std::count(out.begin() + static_cast<ptrdiff_t>(begin_), out.end(), '\n');
}

void TextDecoder::add_utf8(std::string& out, bool last) {
  size_t at = 0;
  for (;;) {
    at = after_ascii(rest_, at);
    if (at == rest_.size()) break;
    const size_t length = utf8_length(rest_, at);
    if (length == 0) {
      if (!last && rest_.size() - at < 4) break;  // the rest of the character may follow
      out.append(rest_, 0, at);
      fail(at, out, "the text is not what its encoding says");
    }
    at += length;
  }
  // A mark of three bytes must not be torn apart.
  if (first_ && !last && at < 3) return;
  out.append(rest_, 0, at);
  rest_.erase(0, at);
  taken_ += at;
}

void TextDecoder::add_other(std::string& out, bool last) {
  std::vector<char> block(kEncodingBlock);
  char* from = rest_.data();
  size_t left = rest_.size();
  for (;;) {
    char* to = block.data();
    size_t room = block.size();
    // Without input the call writes what a stateful encoding has left.
    const bool flush = left == 0;
    const size_t status = ::iconv(static_cast<iconv_t>(converter_), flush ? nullptr : &from, flush ? nullptr : &left, &to, &room);
    const int reason = errno;
    out.append(block.data(), block.size() - room);
    if (status != static_cast<size_t>(-1)) {
      if (flush || !last) break;
      continue;
    }
    if (reason == E2BIG) continue;
    const size_t at = rest_.size() - left;
    if (reason == EINVAL && !last) break;
    fail(at, out, reason == EINVAL ? "the text ends inside a character" : "the text is not what its encoding says");
  }
  const size_t taken = rest_.size() - left;
  rest_.erase(0, taken);
  taken_ += taken;
}

void TextDecoder::fail(size_t at, const std::string& out, const char* what) const {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(rest_[at]);
  const int64_t line = lines_ + 1 + std::count(out.begin() + static_cast<ptrdiff_t>(begin_), out.end(), '\n');
  throw Error(ErrorKind::data,
              {.where = where_ + ":" + std::to_string(line),
               .what = what,
               .got = std::string("0x") + kDigits[byte >> 4] + kDigits[byte & 15] + " at byte " + std::to_string(taken_ + at),
               .expected = "text in " + encoding_,
               .hint = "the option 'encoding' names another: older files are often windows-1252 or latin-1"});
}

std::string marked_encoding(std::string_view head) { return head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff") ? "utf-16" : ""; }

DecodedText decoded_text(std::string_view bytes, const std::string& encoding, const std::string& where) {
  const std::string name = encoding.empty() ? marked_encoding(bytes) : encoding;
  if (name.empty()) return {.text = bytes, .owner = {}};
  auto text = std::make_shared<std::string>();
  TextDecoder decoder(name, where);
  // Part by part: the decoder keeps a copy of what it is given.
  constexpr size_t kPart = size_t{1} << 20;
  for (size_t at = 0; at < bytes.size() || at == 0; at += kPart) decoder.add(bytes.substr(at, kPart), at + kPart >= bytes.size(), *text);
  const std::string_view view = *text;
  return {.text = view, .owner = std::move(text)};
}

}  // namespace perigee
