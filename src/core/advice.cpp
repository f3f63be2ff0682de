#include "src/core/advice.h"

#include <string_view>
#include <utility>

namespace perigee {
namespace {

// '%' is one word of the text, the same in all of them.
struct Phrase {
  std::string_view command, script, library;
};

constexpr Phrase kPhrases[] = {
    {"`perigee train --resume %`", R"(pg.start("%", { resume = "%" }))", R"(a run with resume = "%")"},
    {"`perigee train --resume`", "pg.start(FOLDER, { resume = FOLDER })", "a run with resume = FOLDER"},
    {"--set %", R"(set = { "%" })", "% in the job"},
    {"--batch %", "data.batch = %", "data.batch = % in the job"},
    {"--device %", R"(device = "%")", R"(device = "%")"},
    {"--resume %", R"(resume = "%")", R"(resume = "%")"},
    {"--out", "out", "folder"},
    {"--", "", ""},
};

constexpr std::string_view kEnds = " ;`";

bool begins_option(const std::string& text, size_t at) {
  const size_t quote = at == 0 ? text.npos : text.rfind('`', at - 1);
  if (quote != text.npos && text.compare(quote + 1, 8, "perigee ") == 0 && text[at] != '`') return false;  // in a whole command
  const bool first = at == 0 || text[at - 1] == ' ' || text[at - 1] == '`';
  return first && (text[at] == '`' || (at + 2 < text.size() && text[at + 2] >= 'a' && text[at + 2] <= 'z'));
}

std::string with_word(std::string_view phrase, std::string_view word) {
  std::string text;
  for (const char c : phrase) c == '%' ? text += word : text += c;
  return text;
}

void replace(std::string& text, const Phrase& phrase, std::string_view by) {
  const size_t mark = phrase.command.find('%');
  const std::string_view head = phrase.command.substr(0, mark);
  const std::string_view tail = mark == std::string_view::npos ? "" : phrase.command.substr(mark + 1);
  for (size_t at = text.find(head); at != std::string::npos; at = text.find(head, at)) {
    size_t end = at + head.size();
    std::string word;
    if (mark != std::string_view::npos) {
      word = text.substr(end, text.find_first_of(kEnds, end) - end);
      if (word.ends_with(',')) word.pop_back();
      end += word.size();
    }
    const bool fits =
        begins_option(text, at) && (mark == std::string_view::npos || !word.empty()) && text.compare(end, tail.size(), tail) == 0;
    if (!fits) {
      at += head.size();
      continue;
    }
    const std::string put = with_word(by, word);
    text.replace(at, end + tail.size() - at, put);
    at += put.size();
  }
}

}  // namespace

std::string advice_for(Voice voice, std::string text) {
  if (voice != Voice::command)
    for (const Phrase& phrase : kPhrases) replace(text, phrase, voice == Voice::script ? phrase.script : phrase.library);
  return text;
}

}  // namespace perigee
