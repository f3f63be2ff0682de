#include "src/text/pattern_match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "src/io/module.h"

namespace perigee {
namespace {

constexpr uint32_t kMatchSteps = 1'000'000, kHeapKib = 16 * 1024;
constexpr size_t kPatternBytes = 1 << 16;

struct Pcre2 {
  Pcre2() : module({"libpcre2-8.so.0"}, "tokenizers with regular expressions", "libpcre2-8-0") {
    module.symbol("pcre2_compile_8", compile);
    module.symbol("pcre2_code_free_8", code_free);
    module.symbol("pcre2_match_8", match);
    module.symbol("pcre2_match_data_create_8", data_create);
    module.symbol("pcre2_match_data_free_8", data_free);
    module.symbol("pcre2_match_context_create_8", context_create);
    module.symbol("pcre2_match_context_free_8", context_free);
    module.symbol("pcre2_set_match_limit_8", set_match_limit);
    module.symbol("pcre2_set_heap_limit_8", set_heap_limit);
    module.symbol("pcre2_get_ovector_pointer_8", ovector);
    module.symbol("pcre2_get_error_message_8", error_message);
  }
  Module module;
  pcre2_code* (*compile)(PCRE2_SPTR, PCRE2_SIZE, uint32_t, int*, PCRE2_SIZE*, pcre2_compile_context*);
  void (*code_free)(pcre2_code*);
  int (*match)(const pcre2_code*, PCRE2_SPTR, PCRE2_SIZE, PCRE2_SIZE, uint32_t, pcre2_match_data*, pcre2_match_context*);
  pcre2_match_data* (*data_create)(uint32_t, pcre2_general_context*);
  void (*data_free)(pcre2_match_data*);
  pcre2_match_context* (*context_create)(pcre2_general_context*);
  void (*context_free)(pcre2_match_context*);
  int (*set_match_limit)(pcre2_match_context*, uint32_t);
  int (*set_heap_limit)(pcre2_match_context*, uint32_t);
  PCRE2_SIZE* (*ovector)(pcre2_match_data*);
  int (*error_message)(int, PCRE2_UCHAR*, PCRE2_SIZE);

  std::string message(int code) const {
    PCRE2_UCHAR text[256] = {};
    error_message(code, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }
};

const Pcre2& pcre2() {
  static const Pcre2 loaded;
  return loaded;
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

// The bytes at the head of `rest` whose `]` ends no brackets: [:alpha:] inside of them, and [] or [^] with which they begin; or 0.
size_t literal_of_brackets(std::string_view rest, bool bracket) {
  if (bracket) {
    if (!rest.starts_with("[:")) return 0;
    const size_t end = rest.find_first_not_of("^abcdefghijklmnopqrstuvwxyz", 2);
    return end > 2 && end != rest.npos && rest.substr(end).starts_with(":]") ? end + 2 : 0;
  }
  return rest.starts_with("[]") ? 2 : rest.starts_with("[^]") ? 3 : 0;
}

// Hugging Face's expressions are Oniguruma's, where \w also takes marks, such as the vowels of many scripts; PCRE2's does not before 10.43.
// \W inside of brackets cannot be written out, and stays.
std::string with_words_of_oniguruma(std::string_view pattern) {
  constexpr std::string_view kWord =
      "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";
  std::string written;
  bool bracket = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i], next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (const size_t literal = literal_of_brackets(pattern.substr(i), bracket)) {
      written += pattern.substr(i, literal);
      i += literal - 1;
      bracket = true;
    } else if (c == '\\' && (next == 'w' || (next == 'W' && !bracket))) {
      if (bracket) written += kWord;
      else written.append(next == 'w' ? "[" : "[^").append(kWord).append("]");
      ++i;
    } else if (c == '\\' && next != '\0') {
      written += {c, next};
      ++i;
    } else {
      bracket = c == '[' || (bracket && c != ']');
      written += c;
    }
  }
  return written;
}

}  // namespace

TextPattern::TextPattern(const Config& config) {
  if (config.has("Regex")) compile(with_words_of_oniguruma(config.string("Regex")), config.where());
  else literal_ = config.string("String");
}

TextPattern TextPattern::expression(const std::string& pattern, const std::string& where) {
  TextPattern made{std::string()};
  made.compile(pattern, where);
  return made;
}

void TextPattern::compile(const std::string& pattern, const std::string& where) {
  where_ = where;
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* compiled = nullptr;
  if (pattern.size() <= kPatternBytes)
    compiled = pcre2().compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr);
  if (compiled == nullptr)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "this regular expression cannot be read",
                                  .got = Json(pattern.substr(0, 200)).dump(),
                                  .hint = pattern.size() > kPatternBytes ? "it is too long" : pcre2().message(code)});
  code_ = {compiled, [](void* old) { pcre2().code_free(static_cast<pcre2_code*>(old)); }};
}

std::vector<TextSpan> TextPattern::matches(std::string_view text) const {
  std::vector<TextSpan> found;
  if (!is_expression()) {
    if (literal_.empty()) return found;
    for (size_t at = text.find(literal_); at != text.npos; at = text.find(literal_, at + literal_.size()))
      found.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + literal_.size())});
    return found;
  }
  const Pcre2& library = pcre2();
  const std::shared_ptr<pcre2_match_data> data(library.data_create(1, nullptr), library.data_free);
  const std::shared_ptr<pcre2_match_context> context(library.context_create(nullptr), library.context_free);
  library.set_match_limit(context.get(), kMatchSteps);
  library.set_heap_limit(context.get(), kHeapKib);
  for (size_t at = 0; at <= text.size();) {
    const int count = library.match(static_cast<const pcre2_code*>(code_.get()), units(text), text.size(), at, PCRE2_NO_UTF_CHECK,
                                    data.get(), context.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0)
      throw Error(ErrorKind::data, {.where = where_,
                                    .what = "the regular expression fails",
                                    .got = library.message(count),
                                    .hint = "a repetition in a repetition, such as (a+)+, takes too many steps: write it without"});
    const PCRE2_SIZE* const ends = library.ovector(data.get());
    if (ends[1] <= ends[0] || ends[0] < at) {  // an empty match: nothing to cut at
      if (at >= text.size()) break;
      at = std::max<size_t>(at, ends[0]);
      if (at < text.size()) next_character(text, at);
      else break;
      continue;
    }
    found.push_back({static_cast<uint32_t>(ends[0]), static_cast<uint32_t>(ends[1])});
    at = ends[1];
  }
  return found;
}

}  // namespace perigee
