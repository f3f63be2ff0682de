#include "src/text/pre_tokenizers.h"

#include <algorithm>

#include "src/core/utf8.h"
#include "src/text/normalizers.h"
#include "src/text/pattern_match.h"

namespace perigee {
namespace {

using Words = std::vector<Aligned>;
using Matches = std::function<std::vector<TextSpan>(std::string_view)>;

enum class Split { removed, isolated, merged_with_previous, merged_with_next, contiguous };
constexpr const char* kSplitNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};

Split split_named(const Config& config, const char* key, const char* fallback) {
  const std::string name = config.choice(key, fallback, {std::begin(kSplitNames), std::end(kSplitNames)});
  return static_cast<Split>(std::find(std::begin(kSplitNames), std::end(kSplitNames), name) - std::begin(kSplitNames));
}

struct PreTokenizersPart {
  TextSpan span;
  bool match;
};

// The matches, and between them the rest.
std::vector<PreTokenizersPart> parts_of(std::string_view text, const std::vector<TextSpan>& matches, bool invert) {
  std::vector<PreTokenizersPart> parts;
  uint32_t done = 0;
  const auto between = [&](uint32_t to) {
    if (done < to) parts.push_back({{done, to}, invert});
  };
  for (const TextSpan& match : matches) {
    between(match.from);
    parts.push_back({match, !invert});
    done = match.to;
  }
  between(static_cast<uint32_t>(text.size()));
  return parts;
}

void join(std::vector<PreTokenizersPart>& parts, Split split) {
  std::vector<PreTokenizersPart> joined;
  if (split == Split::merged_with_next) std::reverse(parts.begin(), parts.end());
  bool before = false;
  for (const PreTokenizersPart& part : parts) {
    const bool same = split == Split::contiguous ? part.match == before : part.match && !before;
    if (!joined.empty() && same) {
      TextSpan& last = joined.back().span;
      last = {std::min(last.from, part.span.from), std::max(last.to, part.span.to)};
    } else {
      joined.push_back(part);
    }
    before = part.match;
  }
  if (split == Split::merged_with_next) std::reverse(joined.begin(), joined.end());
  parts = std::move(joined);
}

void cut_pre_tokenizers_words(Words& words, const Matches& matches, Split split, bool invert = false) {
  Words out;
  for (const Aligned& word : words) {
    std::vector<PreTokenizersPart> parts = parts_of(word.text(), matches(word.text()), invert);
    if (split != Split::removed && split != Split::isolated) join(parts, split);
    for (const PreTokenizersPart& part : parts)
      if (!(split == Split::removed && part.match)) out.push_back(word.slice(part.span.from, part.span.to));
  }
  words = std::move(out);
}

// Each character that the function takes is a match, or each run of them.
Matches characters(bool (*taken)(char32_t), bool runs = false) {
  return [=](std::string_view text) {
    std::vector<TextSpan> found;
    for (size_t i = 0; i < text.size();) {
      const auto from = static_cast<uint32_t>(i);
      if (!taken(next_character(text, i))) continue;
      if (runs && !found.empty() && found.back().to == from) found.back().to = static_cast<uint32_t>(i);
      else found.push_back({from, static_cast<uint32_t>(i)});
    }
    return found;
  };
}

// \w+|[^\w\s]+
std::vector<TextSpan> words_and_marks(std::string_view text) {
  std::vector<TextSpan> found;
  int before = 0;
  for (size_t i = 0; i < text.size();) {
    const auto from = static_cast<uint32_t>(i);
    const char32_t code = next_character(text, i);
    const int kind = is_word(code) ? 1 : is_white(code) ? 0 : 2;
    if (kind != 0 && kind == before) found.back().to = static_cast<uint32_t>(i);
    else if (kind != 0) found.push_back({from, static_cast<uint32_t>(i)});
    before = kind;
  }
  return found;
}

std::vector<TextSpan> gpt2_words(std::string_view text) {
  std::vector<TextSpan> found;
  for (size_t i = 0; i < text.size();) {
    const size_t end = gpt2_word_end(text, i);
    found.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(end)});
    i = end;
  }
  return found;
}

// Expressions of which it is known that a space between two words begins a match: GPT-4's and Llama 3's.
bool known_expression(const std::string& pattern) {
  return pattern.starts_with("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?") && pattern.ends_with("|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
}

class PreTokenizersReader {
 public:
  explicit PreTokenizersReader(PreTokenizer& to) : to_(to) {}

  void read(const Config& config, int depth) {
    const std::string type = config.string("type");
    if (type == "Sequence") {
      const Json* list = config.raw("pretokenizers");
      if (list == nullptr || !list->is_array() || depth > 8) config.fail("pretokenizers", "must be a list, nested no more than 8 times");
      for (const Json& item : list->as_array()) read(config.element(item, "pretokenizers"), depth + 1);
      return;
    }
    const bool first = to_.steps.empty();
    if (first) to_.cut = TextCut::none;
    if (type == "BertPreTokenizer" || type == "Whitespace" || type == "WhitespaceSplit") blanks(type, first);
    else if (type == "ByteLevel") byte_level(config, first);
    else if (type == "Metaspace") metaspace(config, first);
    else if (type == "Split") split(config, first);
    else if (type == "Punctuation" || type == "Digits") marks(config, type, first);
    else if (type == "CharDelimiterSplit") add(matching(TextPattern(config.string("delimiter"))), Split::removed);
    else if (type == "FixedLength") fixed_length(config.integer_in("length", 1, 1 << 20));
    else
      config.fail(
          "type", "is not a pre-tokenizer that can be read", Json(type).dump(),
          "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence, Split, Whitespace or "
          "WhitespaceSplit");
  }

 private:
  static Matches matching(const TextPattern& pattern) {
    return [pattern](std::string_view text) { return pattern.matches(text); };
  }

  void add(const Matches& matches, Split split, bool invert = false) {
    to_.steps.push_back([=](Words& words, bool) { cut_pre_tokenizers_words(words, matches, split, invert); });
  }

  void blanks(const std::string& type, bool first) {
    if (first) to_.cut = TextCut::blanks;
    if (type == "Whitespace") return add(words_and_marks, Split::removed, true);
    add(characters(is_white), Split::removed);
    if (type == "BertPreTokenizer") add(characters(is_punctuation), Split::isolated);
  }

  void marks(const Config& config, const std::string& type, bool first) {
    single_ = first || single_;
    if (type == "Punctuation") return add(characters(is_punctuation), split_named(config, "behavior", "Isolated"));
    const bool each = config.boolean("individual_digits", false);
    add(characters(is_numeric), each ? Split::isolated : Split::contiguous);
  }

  void byte_level(const Config& config, bool first) {
    const bool space = config.boolean("add_prefix_space", true), expression = config.boolean("use_regex", true);
    if (expression && first) to_.cut = TextCut::gpt2;
    if (expression && single_ && !space) to_.cut = TextCut::single;
    to_.steps.push_back([=](Words& words, bool beginning) {
      for (Aligned& word : words)
        if (space && (beginning || !first) && !word.text().starts_with(' ')) word.prepend(" ");
      if (expression) cut_pre_tokenizers_words(words, gpt2_words, Split::isolated);
      for (Aligned& word : words) to_byte_characters(word);
    });
  }

  void metaspace(const Config& config, bool first) {
    const std::string mark = config.string("replacement");
    const char* fallback = config.boolean("add_prefix_space", true) ? "always" : "never";
    const std::string scheme = config.choice("prepend_scheme", fallback, {"always", "never", "first"});
    const bool split = config.boolean("split", true);
    if (first) to_.cut = split ? TextCut::spaces : TextCut::markers;
    const TextPattern space(" "), pattern(mark);
    to_.steps.push_back([=](Words& words, bool beginning) {
      for (Aligned& word : words) {
        word.replace(space.matches(word.text()), mark);
        const bool wanted =
            (scheme == "always" && (beginning || !first)) || (scheme == "first" && !word.empty() && word.origin(0, 1).from == 0);
        if (wanted && !word.text().starts_with(mark)) word.prepend(mark);
      }
      if (split) cut_pre_tokenizers_words(words, matching(pattern), Split::merged_with_next);
    });
  }

  void split(const Config& config, bool first) {
    const Config description = config.object("pattern");
    const TextPattern pattern(description);
    if (first && description.has("Regex") && known_expression(description.string("Regex"))) to_.cut = TextCut::single;
    add(matching(pattern), split_named(config, "behavior", "Removed"), config.boolean("invert", false));
  }

  void fixed_length(int64_t length) {
    add(
        [length](std::string_view text) {
          std::vector<TextSpan> found;
          for (size_t i = 0; i < text.size();) {
            const size_t from = i;
            for (int64_t k = 0; k < length && i < text.size(); ++k) next_character(text, i);
            found.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(i)});
          }
          return found;
        },
        Split::isolated);
  }

  PreTokenizer& to_;
  bool single_ = false;
};

}  // namespace

PreTokenizer read_pre_tokenizer(const Json* description, const std::string& where) {
  PreTokenizer made;
  if (description != nullptr && !description->is_null())
    PreTokenizersReader(made).read(Config(*description, where + ": pre_tokenizer", ErrorKind::data), 0);
  return made;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2_word_end(std::string_view text, size_t from) {
  const std::string_view rest = text.substr(from);
  if (rest[0] == '\'')
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (rest.starts_with(ending)) return from + ending.size();
  const auto kind = [](char32_t code) { return is_letter(code) ? 1 : is_numeric(code) ? 2 : is_white(code) ? 0 : 3; };
  size_t at = from;
  if (text[at] == ' ' && at + 1 < text.size()) ++at;
  size_t end = at;
  int first = kind(next_character(text, end));
  if (first == 0) {  // blanks, of which the last goes with the next word or stands alone
    size_t last = at = from;
    while (at < text.size()) {
      size_t next = at;
      if (kind(next_character(text, next)) != 0) break;
      last = at;
      at = next;
    }
    return at == text.size() || last == from ? at : last;
  }
  for (size_t next = end; end < text.size(); end = next)
    if (kind(next_character(text, next)) != first) break;
  return end;
}

}  // namespace perigee
