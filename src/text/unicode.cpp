#include "src/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "src/core/utf8.h"
#include "src/io/module.h"

namespace perigee {
namespace {

struct Utf8proc {
  Utf8proc() : module({"libutf8proc.so.3", "libutf8proc.so.2"}, "text beyond ASCII", "libutf8proc2") {
    module.symbol("utf8proc_category", category);
    module.symbol("utf8proc_tolower", lower);
    module.symbol("utf8proc_get_property", property);
    module.symbol("utf8proc_decompose_char", decompose);
    module.symbol("utf8proc_normalize_utf32", normalize);
    module.symbol("utf8proc_grapheme_break_stateful", grapheme_break);
  }
  Module module;
  utf8proc_category_t (*category)(utf8proc_int32_t);
  utf8proc_int32_t (*lower)(utf8proc_int32_t);
  const utf8proc_property_t* (*property)(utf8proc_int32_t);
  utf8proc_ssize_t (*decompose)(utf8proc_int32_t, utf8proc_int32_t*, utf8proc_ssize_t, utf8proc_option_t, int*);
  utf8proc_ssize_t (*normalize)(utf8proc_int32_t*, utf8proc_ssize_t, utf8proc_option_t);
  utf8proc_bool (*grapheme_break)(utf8proc_int32_t, utf8proc_int32_t, utf8proc_int32_t*);
};

const Utf8proc& unicode_library() {
  static const Utf8proc loaded;
  return loaded;
}

bool in_class(char32_t code, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t category = unicode_library().category(static_cast<utf8proc_int32_t>(code));
  return category >= first && category <= last;
}

bool ascii_letter(char32_t code) { return (code | 0x20) >= 'a' && (code | 0x20) <= 'z'; }
bool ascii_digit(char32_t code) { return code >= '0' && code <= '9'; }

struct UnicodePart {
  char32_t code;
  int change;
  int combining;
};

// Hangul is put together by sums, everything else by the library's table.
char32_t composed(char32_t first, char32_t second) {
  utf8proc_int32_t pair[3] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return unicode_library().normalize(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

// Unicode's canonical composition, as the standard's annex 15 defines it. A character that is put together from several counts their changes.
std::vector<Change> compose(const std::vector<UnicodePart>& parts) {
  std::vector<Change> out;
  size_t starter = parts.size();
  int last = -1;  // class of what stands between the starter and here; -1: nothing
  for (const UnicodePart& part : parts) {
    if (starter < out.size() && last < part.combining) {
      if (const char32_t code = composed(out[starter].code, part.code); code != 0) {
        out[starter] = {code, out[starter].change + part.change - 1};
        continue;
      }
    }
    if (part.combining == 0) starter = out.size(), last = -1;
    else last = part.combining;
    out.push_back({part.code, part.change});
  }
  return out;
}

}  // namespace

bool is_letter(char32_t code) { return code < 0x80 ? ascii_letter(code) : in_class(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }
bool is_numeric(char32_t code) { return code < 0x80 ? ascii_digit(code) : in_class(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_mark(char32_t code) { return code >= 0x300 && in_class(code, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }
bool is_nonspacing(char32_t code) { return code >= 0x300 && in_class(code, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN); }
bool is_punctuation(char32_t code) {
  if (code < 0x80) return code > 0x20 && code < 0x7F && !ascii_letter(code) && !ascii_digit(code);
  return in_class(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}
bool is_white(char32_t code) {
  if (code < 0x80) return code == 0x20 || (code >= 9 && code <= 13);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}
bool is_other(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7F;
  return in_class(code, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}
bool is_word(char32_t code) {
  if (code < 0x80) return ascii_letter(code) || ascii_digit(code) || code == '_';
  if (code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9)) return true;
  if ((code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189)) return true;
  return in_class(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || in_class(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PC);
}
bool is_ideograph(char32_t code) {
  constexpr char32_t kBlocks[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                                     {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks), [&](const auto& block) { return code >= block[0] && code <= block[1]; });
}

std::pair<char32_t, char32_t> small_letters(char32_t code) {
  if (code < 0x80) return {code >= 'A' && code <= 'Z' ? code + 32 : code, 0};
  if (code == 0x130) return {'i', 0x307};
  return {static_cast<char32_t>(unicode_library().lower(static_cast<utf8proc_int32_t>(code))), 0};
}

std::vector<Change> normalized(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<UnicodePart> parts;
  size_t marks = 0;  // where the characters that may change places begin
  const auto sort = [&] {
    std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(marks), parts.end(),
                     [](const UnicodePart& a, const UnicodePart& b) { return a.combining < b.combining; });
  };
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(1, utf8_length(text, i));
    const char32_t code = utf8_code(text, i, length);
    i += length;
    utf8proc_int32_t codes[32] = {static_cast<utf8proc_int32_t>(code)};
    int boundary = 0;
    utf8proc_ssize_t count = 1;
    if (code >= 0x80) count = std::clamp<utf8proc_ssize_t>(unicode_library().decompose(codes[0], codes, 32, options, &boundary), 0, 32);
    for (utf8proc_ssize_t k = 0; k < count; ++k) {
      const int combining = codes[k] < 0x300 ? 0 : unicode_library().property(codes[k])->combining_class;
      if (combining == 0) sort();
      parts.push_back({static_cast<char32_t>(codes[k]), k == 0 ? 0 : 1, combining});
      if (combining == 0) marks = parts.size();
    }
  }
  sort();
  if (form == NormalForm::nfc || form == NormalForm::nfkc) return compose(parts);
  std::vector<Change> out;
  out.reserve(parts.size());
  for (const UnicodePart& part : parts) out.push_back({part.code, part.change});
  return out;
}

bool grapheme_ends(char32_t before, char32_t after, int& state) {
  if (before < 0x80 && after < 0x80) return before != '\r' || after != '\n';
  return unicode_library().grapheme_break(static_cast<utf8proc_int32_t>(before), static_cast<utf8proc_int32_t>(after), &state);
}

}  // namespace perigee
