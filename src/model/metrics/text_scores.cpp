#include "src/model/metrics/text_scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "src/core/replace_all.h"
#include "src/core/utf8.h"
#include "src/model/metrics/rows.h"

namespace perigee {
namespace {

bool is_special(const std::string& name) { return name.empty() || (name.size() > 2 && name.starts_with('<') && name.ends_with('>')); }

// Unicode's White_Space, and the separators U+001C to U+001F, which Python counts too.
bool is_white(int64_t code) {
  constexpr int64_t kOthers[] = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F) || (code >= 0x2000 && code <= 0x200A) ||
         std::find(std::begin(kOthers), std::end(kOthers), code) != std::end(kOthers);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Punctuation, of which ' , - . do not always part words.
bool parts_words(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

using Ngrams = std::vector<Symbols>;

Ngrams ngrams_of(std::span<const int64_t> symbols, size_t order) {
  Ngrams all;
  for (size_t i = 0; i + order <= symbols.size(); ++i)
    all.emplace_back(symbols.begin() + static_cast<std::ptrdiff_t>(i), symbols.begin() + static_cast<std::ptrdiff_t>(i + order));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

int64_t edit_distance(std::span<const int64_t> a, std::span<const int64_t> b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), int64_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t corner = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = corner + (a[i] != b[j]);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, corner + 1});
    }
  }
  return row.back();
}

std::string label_text(std::span<const int64_t> labels, const std::vector<std::string>& class_names) {
  const bool characters = !class_names.empty() && std::all_of(class_names.begin(), class_names.end(), [](const std::string& name) {
    return is_special(name) || utf8_width(name) == 1;
  });
  std::string text;
  for (const int64_t label : labels) {
    if (!characters && !text.empty()) text += ' ';
    text += label >= 0 && static_cast<size_t>(label) < class_names.size() ? class_names[static_cast<size_t>(label)] : std::to_string(label);
  }
  return text;
}

Symbols characters_of(std::string_view text, bool packed) {
  Symbols all;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    const int64_t code = length == 0 ? 0x110000 + static_cast<unsigned char>(text[i]) : static_cast<int64_t>(utf8_code(text, i, length));
    if (!packed || !is_white(code)) all.push_back(code);
    i += std::max<size_t>(length, 1);
  }
  return all;
}

std::pair<Symbols, Symbols> words_of(std::string_view a, std::string_view b) {
  std::map<Symbols, int64_t> known;
  const auto words = [&](std::string_view text) {
    Symbols all, word;
    const auto end = [&] {
      if (!word.empty()) all.push_back(known.try_emplace(word, static_cast<int64_t>(known.size())).first->second);
      word.clear();
    };
    for (const int64_t code : characters_of(text, false)) is_white(code) ? end() : word.push_back(code);
    end();
    return all;
  };
  Symbols first = words(a);
  return {std::move(first), words(b)};
}

std::string tokenized_13a(std::string_view given) {
  std::string text(given);
  while (!text.empty() && (text.back() == ' ' || (text.back() >= 9 && text.back() <= 13))) text.pop_back();
  constexpr std::string_view kReplaced[][2] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                                               {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
  for (const auto& [from, to] : kReplaced) replace_all(text, from, to);
  std::string parted = " ";
  for (const char c : text) parts_words(c) ? (parted += ' ', parted += c, parted += ' ') : parted += c;
  parted += ' ';
  // Each of these passes reads on behind what it changed.
  const auto pass = [&parted](auto&& first, auto&& second, std::string_view form) {
    std::string next;
    for (size_t i = 0; i < parted.size(); ++i) {
      if (i + 1 == parted.size() || !first(parted[i]) || !second(parted[i + 1])) {
        next += parted[i];
        continue;
      }
      for (const char c : form) next += c == '1' ? parted[i] : c == '2' ? parted[i + 1] : ' ';
      ++i;
    }
    parted = std::move(next);
  };
  const auto point = [](char c) { return c == '.' || c == ','; };
  const auto no_digit = [](char c) { return !is_digit(c); };
  pass(no_digit, point, "1 2 ");
  pass(point, no_digit, " 1 2");
  pass(
      is_digit, [](char c) { return c == '-'; }, "1 2 ");
  return parted;
}

void NgramSums::add(std::span<const int64_t> predicted, std::span<const int64_t> wanted, double weight) {
  constexpr size_t kOrdersOfBleu = 4;  // chrF has more
  const size_t orders = sums_.size() / 3;
  for (size_t order = 1; order <= orders; ++order) {
    const Ngrams a = ngrams_of(predicted, order), b = ngrams_of(wanted, order);
    if (b.empty() && orders > kOrdersOfBleu) continue;  // chrF counts nothing where the wanted text is too short
    Ngrams both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    double* const sums = &sums_[3 * (order - 1)];
    sums[0] += weight * static_cast<double>(a.size());
    sums[1] += weight * static_cast<double>(b.size());
    sums[2] += weight * static_cast<double>(both.size());
  }
}

double NgramSums::bleu() const {
  const size_t orders = sums_.size() / 3;
  const double predicted = at(0, 0), wanted = at(0, 1);
  if (wanted == 0) return NAN;
  double halves = 1, logs = 0;
  bool any = false;
  for (size_t i = 0; i < orders; ++i) {
    any |= at(i, 2) > 0;
    if (at(i, 0) == 0) return 0;  // too short for the order
    logs += std::log(at(i, 2) > 0 ? at(i, 2) / at(i, 0) : 1 / ((halves *= 2) * at(i, 0)));
  }
  if (!any) return 0;
  const double brevity = predicted < wanted ? std::exp(1 - wanted / predicted) : 1;
  return 100 * brevity * std::exp(logs / static_cast<double>(orders));
}

double NgramSums::chrf() const {
  constexpr double kRecall = 4;  // the square of how often it counts
  if (at(0, 1) == 0) return NAN;
  double precision = 0, recall = 0;
  for (size_t i = 0; i < sums_.size() / 3; ++i) {
    if (at(i, 0) == 0 || at(i, 1) == 0) continue;
    precision += at(i, 2) / at(i, 0), recall += at(i, 2) / at(i, 1);
  }
  double orders = 0;
  for (size_t i = 0; i < sums_.size() / 3; ++i) orders += at(i, 0) > 0 && at(i, 1) > 0;
  if (precision + recall == 0) return 0;
  return 100 * (1 + kRecall) * precision * recall / (kRecall * precision + recall) / orders;
}

void TextScores::add(std::string_view predicted, std::string_view wanted, bool tokenize) {
  const auto [said, meant] = words_of(predicted, wanted);
  words += static_cast<double>(meant.size());
  word_errors += static_cast<double>(edit_distance(said, meant));
  const Symbols drawn = characters_of(predicted, false), asked = characters_of(wanted, false);
  characters += static_cast<double>(asked.size());
  character_errors += static_cast<double>(edit_distance(drawn, asked));
  texts += 1, equal += predicted == wanted;
  if (tokenize) {
    const auto [a, b] = words_of(tokenized_13a(predicted), tokenized_13a(wanted));
    bleu.add(a, b, 1);
  } else {
    bleu.add(said, meant, 1);
  }
  chrf.add(characters_of(predicted, true), characters_of(wanted, true), 1);
}

Json TextScores::figures() const {
  return Json(Json::Object{{"word_error_rate", ratio(word_errors, words)},
                           {"character_error_rate", ratio(character_errors, characters)},
                           {"equal", ratio(equal, texts)},
                           {"bleu", figure(bleu.bleu())},
                           {"chrf", figure(chrf.chrf())}});
}

}  // namespace perigee
