#include "repl/editor/keys.h"

#include <cstdint>

#include "src/core/utf8.h"

namespace perigee {
namespace {

constexpr char kEscape = '\x1b';
constexpr size_t kLongestSequence = 32;          // of a key; what is longer is none
constexpr size_t kLongestAnswer = 256;           // of a terminal
constexpr size_t kPastePart = size_t{64} << 10;  // a long paste comes in parts
constexpr std::string_view kPasteEnd = "\x1b[201~", kStringEnd = "\x1b\\";

// Bytes of the sequence that begins with `lead`, as far as the lead byte tells.
size_t announced_length(unsigned char lead) { return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1; }

std::string_view final_name(char final) {
  switch (final) {
    case 'A': return "<Up>";
    case 'B': return "<Down>";
    case 'C': return "<Right>";
    case 'D': return "<Left>";
    case 'F': return "<End>";
    case 'H': return "<Home>";
    case 'Z': return "S-<Tab>";
    default: return "<Unknown>";
  }
}

std::string_view numbered_name(int number) {
  switch (number) {
    case 1:
    case 7: return "<Home>";
    case 2: return "<Insert>";
    case 3: return "<Delete>";
    case 4:
    case 8: return "<End>";
    case 5: return "<PageUp>";
    case 6: return "<PageDown>";
    default: return "<Unknown>";
  }
}

// xterm's: 1 + shift 1 + alt 2 + control 4.
std::string modifiers(int number) {
  const int bits = number - 1;
  if (bits <= 0 || bits > 7) return "";
  return std::string(bits & 4 ? "C-" : "") + (bits & 2 ? "M-" : "") + (bits & 1 ? "S-" : "");
}

}  // namespace

std::optional<Key> KeyDecoder::take(size_t count, std::string name) {
  bytes_.erase(0, count);
  return Key{std::move(name), ""};
}

std::optional<Key> KeyDecoder::control(unsigned char byte) {
  switch (byte) {
    case '\r':
    case '\n': return take(1, "<Enter>");
    case '\t': return take(1, "<Tab>");
    case '\b':
    case 0x7F: return take(1, "<Backspace>");
    default: return take(1, std::string("C-") + static_cast<char>(byte >= 1 && byte <= 26 ? byte + 0x60 : byte + 0x40));
  }
}

std::optional<Key> KeyDecoder::character() {
  const size_t length = utf8_length(bytes_, 0);
  if (length == 0) {
    const auto lead = static_cast<unsigned char>(bytes_[0]);
    const size_t wanted = announced_length(lead);
    bool may_follow = bytes_.size() < wanted;
    for (size_t i = 1; i < bytes_.size() && may_follow; ++i) may_follow = (static_cast<unsigned char>(bytes_[i]) & 0xC0) == 0x80;
    if (may_follow) return {};
    bytes_.erase(0, 1);
    return Key{"", "\xEF\xBF\xBD"};
  }
  const std::string text = bytes_.substr(0, length);
  if (!is_shown(utf8_code(text, 0, length))) return take(length, "<Unknown>");
  bytes_.erase(0, length);
  return Key{"", text};
}

// ESC [ parameters final, or ESC O final.
std::optional<Key> KeyDecoder::sequence() {
  size_t at = 2;
  int numbers[2] = {0, 0}, count = 0;
  if (bytes_[1] == '[' && bytes_.size() > 2 && bytes_[2] == '[')  // the Linux console's function keys
    return bytes_.size() > 3 ? take(4, "<Unknown>") : std::nullopt;
  for (; at < bytes_.size() && bytes_[at] >= 0x20 && bytes_[at] <= 0x3F; ++at) {
    if (at >= kLongestSequence) return take(at, "<Unknown>");
    if (bytes_[at] == ';') ++count;
    else if (bytes_[at] >= '0' && bytes_[at] <= '9' && count < 2 && numbers[count] < 1000)
      numbers[count] = numbers[count] * 10 + (bytes_[at] - '0');
  }
  if (at >= bytes_.size()) return {};
  const char final = bytes_[at];
  if (final < 0x40) return take(at, "<Unknown>");  // a control character or another escape: it is a key of its own
  if (final == '~' && numbers[0] == 200) {
    bytes_.erase(0, at + 1);
    pasting_ = true;
    return paste();
  }
  const std::string_view name = final == '~' ? numbered_name(numbers[0]) : final_name(final);
  return take(at + 1, name == "<Unknown>" ? "<Unknown>" : modifiers(numbers[1]) + std::string(name));
}

// ESC _ G ... ESC \: kitty's answer to a question about pictures that was given up on (graphics.cpp). It is no key.
std::optional<Key> KeyDecoder::answer() {
  if (bytes_.size() < 3) return {};
  const size_t end = bytes_.find(kStringEnd);
  if (end != std::string::npos) return take(end + kStringEnd.size(), "<Unknown>");
  return bytes_.size() > kLongestAnswer ? take(bytes_.size(), "<Unknown>") : std::nullopt;
}

std::optional<Key> KeyDecoder::escape() {
  if (bytes_.size() < 2) return {};
  if (bytes_[1] == '_' && (bytes_.size() < 3 || bytes_[2] == 'G')) return answer();
  if (bytes_[1] == kEscape) return take(1, "<Escape>");
  if (bytes_[1] == '[' || bytes_[1] == 'O') return sequence();
  std::string rest = bytes_.substr(1);
  rest.swap(bytes_);
  const auto byte = static_cast<unsigned char>(bytes_[0]);
  std::optional<Key> key = byte < 0x20 || byte == 0x7F ? control(byte) : character();
  if (!key) rest.swap(bytes_);
  else key = Key{"M-" + key->name + key->text, ""};
  return key;
}

std::optional<Key> KeyDecoder::paste() {
  const size_t end = bytes_.find(kPasteEnd);
  if (end == std::string::npos && bytes_.size() < kPastePart + kPasteEnd.size() + 4) return {};
  size_t part = end;
  if (end == std::string::npos) {
    part = kPastePart;
    while (part < kPastePart + 3 && (static_cast<unsigned char>(bytes_[part]) & 0xC0) == 0x80) ++part;  // whole characters
  }
  Key key{"<Paste>", clean_text(std::string_view(bytes_).substr(0, part))};
  bytes_.erase(0, end == std::string::npos ? part : end + kPasteEnd.size());
  pasting_ = end == std::string::npos;
  return key;
}

std::optional<Key> KeyDecoder::next() {
  if (bytes_.empty()) return {};
  if (pasting_) return paste();
  const auto byte = static_cast<unsigned char>(bytes_[0]);
  if (byte == kEscape) return escape();
  if (byte < 0x20 || byte == 0x7F) return control(byte);
  return character();
}

void KeyDecoder::expire() {
  if (undecided()) bytes_.clear();
}

}  // namespace perigee
