#include "src/text/normalizers.h"

#include <algorithm>

#include "src/core/utf8.h"
#include "src/io/base64.h"
#include "src/text/charsmap.h"
#include "src/text/pattern_match.h"

namespace perigee {
namespace {

using Reach = NormalizerStep::Reach;

void lowercase(Aligned& text) {
  text.map([](char32_t code, std::vector<Change>& changes) {
    const auto [first, second] = small_letters(code);
    changes.push_back({first, 0});
    if (second != 0) changes.push_back({second, 1});
  });
}

void normal_form(Aligned& text, NormalForm form) { text.transform(normalized(text.text(), form)); }

NormalizerStep bert(const Config& config) {
  const bool clean = config.boolean("clean_text", true), chinese = config.boolean("handle_chinese_chars", true);
  const bool lower = config.boolean("lowercase", true), strip = config.boolean("strip_accents", lower);
  return {[=](Aligned& text) {
    if (clean) {
      const auto blank = [](char32_t code) { return code == '\t' || code == '\n' || code == '\r'; };
      text.keep([&](char32_t code) { return code != 0 && code != 0xFFFD && (blank(code) || !is_other(code)); });
      text.map([&](char32_t code, std::vector<Change>& changes) { changes.push_back({is_white(code) ? U' ' : code, 0}); });
    }
    if (chinese)
      text.map([](char32_t code, std::vector<Change>& changes) {
        if (is_ideograph(code)) changes.insert(changes.end(), {{' ', 0}, {code, 1}, {' ', 1}});
        else changes.push_back({code, 0});
      });
    if (strip) {
      normal_form(text, NormalForm::nfd);
      text.keep([](char32_t code) { return !is_nonspacing(code); });
    }
    if (lower) lowercase(text);
  }};
}

void nmt(Aligned& text) {
  const auto gone = [](char32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  };
  const auto blank = [](char32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
           c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  };
  text.keep([&](char32_t code) { return !gone(code); });
  text.map([&](char32_t code, std::vector<Change>& changes) { changes.push_back({blank(code) ? U' ' : code, 0}); });
}

void strip_normalizers(Aligned& text, bool left, bool right) {
  const std::string& content = text.text();
  size_t first = 0, last = 0, count = 0;  // of the characters that stay
  for (size_t i = 0; i < content.size();) {
    const bool white = is_white(next_character(content, i));
    ++count;
    if (white) continue;
    if (last == 0) first = count;
    last = count;
  }
  if (last == 0) first = count + 1;
  size_t at = 0;
  text.keep([&](char32_t) {
    ++at;
    return (!left || at >= first) && (!right || at <= last);
  });
}

// Hugging Face asks the table for what a reader takes for one character, if it is short, and takes the first answer; then for each code point.
void precompiled(Aligned& text, const CharacterMap& table) {
  const std::string content = text.text();
  std::vector<Change> changes;
  const auto put = [&](std::string_view old) {
    const CharacterMap::Found found = table.shortest(old);
    if (found.bytes == 0) return false;
    const auto was = static_cast<int>(utf8_width(old)), is = static_cast<int>(utf8_width(found.becomes));
    for (size_t i = 0, k = 0; i < found.becomes.size(); ++k)
      changes.push_back({next_character(found.becomes, i), static_cast<int>(k) < was ? 0 : 1});
    if (is < was && !changes.empty()) changes.back().change += is - was;
    return true;
  };
  for (size_t i = 0; i < content.size();) {
    const size_t from = i;
    int state = 0;
    char32_t code = next_character(content, i);
    for (size_t next = i; i < content.size(); i = next) {
      const char32_t after = next_character(content, next);
      if (grapheme_ends(code, after, state)) break;
      code = after;
    }
    const std::string_view grapheme = std::string_view(content).substr(from, i - from);
    if (grapheme.size() < 6 && put(grapheme)) continue;
    for (size_t k = 0; k < grapheme.size();) {
      const size_t begin = k;
      const char32_t one = next_character(grapheme, k);
      if (!put(grapheme.substr(begin, k - begin))) changes.push_back({one, 0});
    }
  }
  text.transform(changes);
}

NormalizerStep replacing(const Config& config) {
  const TextPattern pattern(config.object("pattern"));
  const std::string content = config.string("content");
  const std::string& literal = pattern.literal();
  const bool blank = std::any_of(literal.begin(), literal.end(), [](char c) { return static_cast<unsigned char>(c) <= ' '; });
  const bool wordwise = !pattern.is_expression() && !blank;
  return {[=](Aligned& text) { text.replace(pattern.matches(text.text()), content); }, wordwise ? Reach::word
                                                                                       : literal == " " && content == "\xE2\x96\x81"
                                                                                           ? Reach::blanks
                                                                                           : Reach::all};
}

void read_normalizers_into(Normalizer& steps, const Config& config, int depth);

NormalizerStep read_step(const Config& config, const std::string& type) {
  const auto form = [](NormalForm which) { return NormalizerStep{[which](Aligned& text) { normal_form(text, which); }}; };
  if (type == "BertNormalizer") return bert(config);
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return {lowercase};
  if (type == "StripAccents") return {[](Aligned& text) { text.keep([](char32_t code) { return !is_mark(code); }); }};
  if (type == "Nmt") return {nmt, Reach::all};
  if (type == "ByteLevel") return {to_byte_characters, Reach::all};
  if (type == "Replace") return replacing(config);
  if (type == "Prepend") {
    const std::string before = config.string("prepend");
    return {[before](Aligned& text) { text.prepend(before); }, Reach::beginning};
  }
  if (type == "Strip") {
    const bool left = config.boolean("strip_left", true), right = config.boolean("strip_right", true);
    return {[=](Aligned& text) { strip_normalizers(text, left, right); }, Reach::all};
  }
  if (type == "Precompiled") {
    const CharacterMap table(from_base64(config.string("precompiled_charsmap"), config.where()), config.where());
    return {[table](Aligned& text) { precompiled(text, table); }};
  }
  config.fail(
      "type", "is not a normalizer that can be read", Json(type).dump(),
      "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip or StripAccents");
}

void read_normalizers_into(Normalizer& steps, const Config& config, int depth) {
  const std::string type = config.string("type");
  if (type != "Sequence") return steps.push_back(read_step(config, type));
  const Json* list = config.raw("normalizers");
  if (list == nullptr || !list->is_array() || depth > 8) config.fail("normalizers", "must be a list, nested no more than 8 times");
  for (const Json& item : list->as_array()) read_normalizers_into(steps, config.element(item, "normalizers"), depth + 1);
}

}  // namespace

Normalizer read_normalizer(const Json* description, const std::string& where) {
  Normalizer steps;
  if (description != nullptr && !description->is_null())
    read_normalizers_into(steps, Config(*description, where + ": normalizer", ErrorKind::data), 0);
  return steps;
}

// Printable characters of Latin-1 stand for themselves, the others for those from U+0100 on.
char32_t byte_character(unsigned char byte) {
  const auto plain = [](unsigned b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
  if (plain(byte)) return byte;
  char32_t code = 0x100;
  for (unsigned b = 0; b < byte; ++b) code += plain(b) ? 0 : 1;
  return code;
}

int character_byte(char32_t code) {
  static const std::vector<int16_t> bytes = [] {
    std::vector<int16_t> table(0x144, -1);
    for (int byte = 0; byte < 256; ++byte) table[byte_character(static_cast<unsigned char>(byte))] = static_cast<int16_t>(byte);
    return table;
  }();
  return code < bytes.size() ? bytes[code] : -1;
}

void to_byte_characters(Aligned& text) {
  text.map([](char32_t code, std::vector<Change>& changes) {
    std::string bytes;
    append_utf8(code, bytes);
    for (size_t i = 0; i < bytes.size(); ++i) changes.push_back({byte_character(static_cast<unsigned char>(bytes[i])), i == 0 ? 0 : 1});
  });
}

}  // namespace perigee
