// How far sequences of labels, words or characters are from those that were wanted: error rates, BLEU and chrF, as sums over many of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/config.h"

namespace perigee {

using Symbols = std::vector<int64_t>;  // labels, code points, or words by number

// How many labels have to be inserted, left out or replaced to get from one to the other (Levenshtein, 1966).
int64_t edit_distance(std::span<const int64_t> a, std::span<const int64_t> b);

// The names of the labels, one after the other where each is a single character (not counting such as "<blank>"), else with spaces between.
std::string label_text(std::span<const int64_t> labels, const std::vector<std::string>& class_names);

// The code points of a text, without white space when `packed`.
Symbols characters_of(std::string_view text, bool packed);
// The words of two texts, which white space divides, as numbers that are the same for the same word.
std::pair<Symbols, Symbols> words_of(std::string_view a, std::string_view b);
// White space around punctuation as mteval-v13a, the script of the WMT conferences, puts it; sacrebleu calls it "13a".
std::string tokenized_13a(std::string_view text);

// A corpus's n-grams of orders 1, 2, ...
class NgramSums {
 public:
  explicit NgramSums(int orders) : sums_(static_cast<size_t>(3 * orders)) {}
  void add(std::span<const int64_t> predicted, std::span<const int64_t> wanted, double weight);
  // From 0 to 100; NaN before anything was added. Papineni et al., "BLEU", 2002, of all orders, with sacrebleu's smoothing "exp".
  double bleu() const;
  // Popović, "chrF", 2015, with the recall counting twice as much.
  double chrf() const;
  std::vector<double>& numbers() { return sums_; }
  const std::vector<double>& numbers() const { return sums_; }

 private:
  double at(size_t order, size_t which) const { return sums_[3 * order + which]; }
  std::vector<double> sums_;  // of each order: n-grams predicted, wanted, and both
};

// All of them of texts; error rates are of all words or characters that were wanted. Null where nothing was wanted.
struct TextScores {
  double words = 0, word_errors = 0, characters = 0, character_errors = 0, texts = 0, equal = 0;
  NgramSums bleu{4}, chrf{6};
  void add(std::string_view predicted, std::string_view wanted, bool tokenize);
  Json figures() const;
};

}  // namespace perigee
