#include "src/text/sentences.h"

#include <algorithm>
#include <span>
#include <string>

#include "src/core/utf8.h"

namespace perigee {
namespace {

// Behind these a name or a number goes on: their dot never ends a sentence. Sorted.
constexpr std::string_view kBeforeMore[] = {"adm", "art",  "brig", "capt", "cf",   "chap", "cmdr", "col", "comdr", "dr",  "eq",
                                            "eqs", "fig",  "figs", "fr",   "ft",   "gen",  "gov",  "hon", "lt",    "maj", "messrs",
                                            "mr",  "mrs",  "ms",   "mt",   "nos",  "pp",   "prof", "pvt", "rep",   "rev", "sec",
                                            "sen", "sens", "sgt",  "st",   "supt", "vol",  "vols", "vs"};
// These stand within a sentence and at its end: what follows tells. Sorted.
constexpr std::string_view kAnywhere[] = {"a.d",  "a.m", "al",   "apr",  "assn", "aug", "ave", "b.c", "blvd",  "bros", "co",  "corp",
                                          "d.c",  "dec", "dept", "e.g",  "est",  "etc", "ext", "feb", "i.e",   "inc",  "jan", "jr",
                                          "jul",  "jun", "ltd",  "m.d",  "mar",  "mfg", "no",  "nov", "oct",   "p",    "p.m", "p.s",
                                          "ph.d", "rd",  "sep",  "sept", "sr",   "u.k", "u.n", "u.s", "u.s.a", "univ", "viz"};
// Words that begin sentences and hardly follow an abbreviation inside one. Sorted.
constexpr std::string_view kStarters[] = {
    "a",   "after", "although", "an",      "and",   "as",    "at",   "but", "by",    "during", "each",  "even",  "for",  "from", "he",
    "her", "his",   "how",      "however", "i",     "if",    "in",   "it",  "its",   "many",   "most",  "my",    "no",   "not",  "now",
    "on",  "one",   "our",      "she",     "so",    "some",  "that", "the", "their", "then",   "there", "these", "they", "this", "those",
    "to",  "we",    "what",     "when",    "where", "while", "who",  "why", "with",  "yet",    "you",   "your"};
static_assert(std::is_sorted(std::begin(kBeforeMore), std::end(kBeforeMore)) &&
              std::is_sorted(std::begin(kAnywhere), std::end(kAnywhere)) && std::is_sorted(std::begin(kStarters), std::end(kStarters)));

bool among(std::span<const std::string_view> list, std::string_view word) { return std::binary_search(list.begin(), list.end(), word); }

char32_t code_at(std::string_view text, size_t at, size_t* length) {
  *length = at < text.size() ? utf8_length(text, at) : 0;
  if (*length > 0) return utf8_code(text, at, *length);
  *length = at < text.size() ? 1 : 0;
  return 0;
}

bool is_blank(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == 0xA0 || (c >= 0x2000 && c <= 0x200B) || c == 0x3000; }
bool is_wide_end(char32_t c) { return c == 0x3002 || c == 0xFF01 || c == 0xFF1F || c == 0xFF61; }
bool is_end(char32_t c) { return c == '.' || c == '!' || c == '?' || c == 0x2026 || c == 0x203C || (c >= 0x2047 && c <= 0x2049); }
bool is_closing(char32_t c) {
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == '}' || c == 0xBB || c == 0x2019 || c == 0x201D || c == 0x300D ||
         c == 0x300F || c == 0xFF09;
}
bool is_opening(char32_t c) {
  return c == '"' || c == '\'' || c == '(' || c == '[' || c == '{' || c == 0xAB || c == 0xBF || c == 0xA1 || c == 0x2018 || c == 0x201C;
}
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_capital(char32_t c) {
  return (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE && c != 0xD7) || (c >= 0x391 && c <= 0x3A9) || (c >= 0x400 && c <= 0x42F);
}
bool is_small(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 0xDF && c <= 0xFF && c != 0xF7) || (c >= 0x3B1 && c <= 0x3C9) || (c >= 0x430 && c <= 0x45F);
}
bool is_letter_here(char32_t c) { return is_capital(c) || is_small(c); }

std::string lowered(std::string_view word) {
  std::string out(word);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

// The letters, digits and dots before `end`, without the opening marks before them.
std::string_view word_before(std::string_view text, size_t begin, size_t end) {
  size_t at = end;
  while (at > begin && end - at < 64) {
    const auto c = static_cast<unsigned char>(text[at - 1]);
    if (!is_digit(c) && !is_letter_here(c) && c < 0x80 && c != '.' && c != '-') break;
    --at;
  }
  return text.substr(at, end - at);
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<std::string_view> run() {
    size_t length = 0;
    for (size_t at = 0; at < text_.size(); at += length) {
      const char32_t c = code_at(text_, at, &length);
      if (c == '\n' && empty_line(at)) cut(at);
      else if (is_wide_end(c)) at = cut(after_marks(at + length)), length = 0;
      else if (is_end(c)) {
        if (text_.substr(at).starts_with(". .")) ++length;
        const size_t marks = after_marks(at + length);
        if (ends(at, marks)) cut(marks);
        at = marks, length = 0;
      }
    }
    cut(text_.size());
    return std::move(found_);
  }

 private:
  // Whether nothing but blanks stands between this line feed and the next.
  bool empty_line(size_t at) const {
    for (size_t i = at + 1; i < text_.size(); ++i) {
      if (text_[i] == '\n') return true;
      if (text_[i] != ' ' && text_[i] != '\t' && text_[i] != '\r') return false;
    }
    return false;
  }

  size_t cut(size_t end) {
    std::string_view sentence = text_.substr(begin_, end - begin_);
    size_t length = 0;
    while (!sentence.empty() && is_blank(code_at(sentence, 0, &length))) sentence.remove_prefix(length);
    while (!sentence.empty() && (sentence.back() == ' ' || (sentence.back() >= '\t' && sentence.back() <= '\r'))) sentence.remove_suffix(1);
    if (!sentence.empty()) found_.push_back(sentence);
    begin_ = end;
    return end;
  }

  // Behind more marks, also those of ". . .", and what they close.
  size_t after_marks(size_t at) const {
    size_t length = 0;
    for (char32_t c = code_at(text_, at, &length); is_end(c) || is_wide_end(c); c = code_at(text_, at, &length)) {
      at += length;
      if (c == '.' && text_.substr(at).starts_with(" .")) ++at;
    }
    for (char32_t c = code_at(text_, at, &length); is_closing(c); c = code_at(text_, at, &length)) at += length;
    return at;
  }

  // Whether the marks from `mark` to `after` end the sentence.
  bool ends(size_t mark, size_t after) const {
    if (after == text_.size()) return true;
    if (mark > begin_ && text_[mark - 1] == '[') return false;  // "[...]": something was left out
    size_t length = 0, next = after;
    if (!is_blank(code_at(text_, next, &length))) return false;
    char32_t c = code_at(text_, next, &length);
    for (; next < text_.size() && is_blank(c); c = code_at(text_, next, &length)) next += length;
    bool opens = false;
    for (; is_opening(c); c = code_at(text_, next, &length)) next += length, opens = true;
    if (is_small(c) || c == ',' || c == ';' || c == ':') return false;
    const bool single_dot = text_[mark] == '.' && (after == mark + 1 || is_closing(static_cast<unsigned char>(text_[mark + 1])));
    return !single_dot || dot_ends(mark, after > mark + 1, next, c, opens);
  }

  // A dot alone; the next word begins at `next` with `c`.
  bool dot_ends(size_t mark, bool closes, size_t next, char32_t c, bool opens) const {
    const std::string_view word = word_before(text_, begin_, mark);
    if (word.empty() || closes) return true;
    const std::string small = lowered(word);
    const bool starts = text_.substr(begin_, static_cast<size_t>(word.data() - text_.data()) - begin_).find_first_not_of(" \t\r\n") ==
                        std::string_view::npos;
    // "1. Wash the rice": the number of what follows.
    if (starts && word.size() <= 3 && std::all_of(word.begin(), word.end(), [](char d) { return is_digit(static_cast<unsigned char>(d)); }))
      return false;
    if (among(kBeforeMore, small)) return false;
    const bool initial = word.size() == 1 && is_capital(static_cast<unsigned char>(word[0])) && (small != "i" || behind_a_name(word));
    const bool initials = of_single_letters(word);
    if (initial && is_capital(c)) return false;
    if (!initial && !initials && !among(kAnywhere, small)) return true;
    if (is_digit(c)) return small == "etc" || small == "a.m" || small == "p.m";
    return !opens && among(kStarters, lowered(next_word(next)));
  }

  // "Albert I." and not "you and I."
  bool behind_a_name(std::string_view word) const {
    const auto at = static_cast<size_t>(word.data() - text_.data());
    if (at <= begin_ + 1 || text_[at - 1] != ' ') return false;
    const std::string_view before = word_before(text_, begin_, at - 1);
    return !before.empty() && is_capital(static_cast<unsigned char>(before[0]));
  }

  // "U.S", "J.R.R", "e.g"
  static bool of_single_letters(std::string_view word) {
    if (word.size() < 3 || word.size() % 2 == 0) return false;
    for (size_t i = 0; i < word.size(); ++i)
      if (i % 2 == 1 ? word[i] != '.' : !is_letter_here(static_cast<unsigned char>(word[i]))) return false;
    return true;
  }

  std::string_view next_word(size_t at) const {
    size_t end = at;
    while (end < text_.size() && is_letter_here(static_cast<unsigned char>(text_[end])) && static_cast<unsigned char>(text_[end]) < 0x80)
      ++end;
    return text_.substr(at, end - at);
  }

  std::string_view text_;
  size_t begin_ = 0;
  std::vector<std::string_view> found_;
};

}  // namespace

std::vector<std::string_view> sentences_of(std::string_view text) { return Splitter(text).run(); }

}  // namespace perigee
