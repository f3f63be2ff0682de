// Documents as vectors with a place for each term, which is a unit or several in a row: how often it comes, perhaps weighted by how rare it is
// (TF-IDF as scikit-learn defines it: idf = ln((1 + documents) / (1 + documents with the term)) + 1, rows of length 1).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/text/stemmer.h"
#include "src/text/text_numbers.h"

namespace perigee {

enum class TermWeight { count, binary, tfidf };

struct TermOptions {
  TextUnits units;
  int64_t ngrams = 1;  // terms of so many units at most
  std::vector<std::string> stop_words;
  std::string stem;  // a language of Snowball, by whose rules words are cut to their stems; empty: they are not
  TermWeight weight = TermWeight::tfidf;
  bool sublinear = false;  // 1 + ln(count) for the count
  int64_t min_count = 1;   // documents that have a term
  int64_t max_size = 1 << 16;
};

// A row without its zeros: places in order, and what stands there.
struct TermRow {
  std::vector<uint32_t> places;
  std::vector<float> values;
};

class TermBag {
 public:
  static constexpr int64_t kMaxTerms = 1 << 20, kMaxGrams = 8;

  explicit TermBag(TermOptions options);
  // From the output of to_json().
  explicit TermBag(const Config& config);
  Json to_json() const;

  // The terms of the documents, of which document(i) is the text and place(i) its name: the most frequent, in the order of their bytes.
  // Error(resources) when there are more than 2^24 different ones, Error(data) when none is left.
  void fit(size_t documents, const std::function<std::string_view(size_t)>& document, const std::function<std::string(size_t)>& place);
  int64_t size() const { return static_cast<int64_t>(terms_.size()); }
  const std::vector<std::string>& terms() const { return terms_; }
  // Error(data) naming the byte for what is not UTF-8.
  TermRow row(std::string_view text, const std::string& where) const;

 private:
  void each_term(std::string_view text, const std::string& where, const std::function<void(const std::string&)>& take) const;
  void number_terms();

  TermOptions options_;
  std::unordered_set<std::string> stop_;
  std::shared_ptr<const Stemmer> stemmer_;  // null: words stay as they are
  std::vector<std::string> terms_;
  std::vector<float> rarity_;  // of each term; empty unless they are weighted by it
  std::unordered_map<std::string_view, int32_t> places_;
};

}  // namespace perigee
