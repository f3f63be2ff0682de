#include "src/text/term_bag.h"

#include <algorithm>
#include <cmath>

namespace perigee {
namespace {

constexpr size_t kMaxDifferentTerms = size_t{1} << 24;
constexpr const char* kWeights[] = {"count", "binary", "tfidf"};

struct TermCount {
  int64_t documents = 0, all = 0;
  size_t last = 0;  // document, from 1
};

}  // namespace

TermBag::TermBag(TermOptions options) : options_(std::move(options)), stop_(options_.stop_words.begin(), options_.stop_words.end()) {
  if (!options_.stem.empty()) stemmer_ = std::make_shared<const Stemmer>(options_.stem);
}

TermBag::TermBag(const Config& config)
    : TermBag(TermOptions{
          .units = {.words = config.choice("unit", "word", {"word", "char"}) == "word", .lowercase = config.boolean("lowercase")},
          .ngrams = config.integer_in("ngrams", 1, kMaxGrams),
          .stop_words = config.string_list("stop_words"),
          .stem = Stemmer::language(config),
          .sublinear = config.boolean("sublinear", false)}) {
  const std::string weight = config.choice("features", "tfidf", {std::begin(kWeights), std::end(kWeights)});
  options_.weight = static_cast<TermWeight>(std::find(std::begin(kWeights), std::end(kWeights), weight) - std::begin(kWeights));
  terms_ = config.string_list("terms");
  if (const Json* rarity = config.raw("idf"); rarity != nullptr && rarity->is_array())
    for (const Json& value : rarity->as_array()) rarity_.push_back(value.is_number() ? static_cast<float>(value.as_number()) : NAN);
  if (terms_.empty() || size() > kMaxTerms)
    config.fail("terms", "must be a list", std::to_string(size()), "1 to " + std::to_string(kMaxTerms));
  if (rarity_.size() != (options_.weight == TermWeight::tfidf ? terms_.size() : 0) ||
      !std::all_of(rarity_.begin(), rarity_.end(), [](float value) { return std::isfinite(value); }))
    config.fail("idf", "must have a number for each term", std::to_string(rarity_.size()), std::to_string(terms_.size()));
  number_terms();
  if (places_.size() != terms_.size()) config.fail("terms", "has a term twice");
}

Json TermBag::to_json() const {
  Json json = Json::object(), terms = Json::array(), rarity = Json::array(), stop = Json::array();
  for (const std::string& term : terms_) terms.push(term);
  for (const float value : rarity_) rarity.push(static_cast<double>(value));
  for (const std::string& word : options_.stop_words) stop.push(word);
  json.set("features", kWeights[static_cast<int>(options_.weight)]);
  json.set("unit", options_.units.words ? "word" : "char");
  json.set("lowercase", options_.units.lowercase);
  json.set("ngrams", options_.ngrams);
  json.set("stop_words", std::move(stop));
  if (stemmer_) json.set("stem", options_.stem);
  json.set("sublinear", options_.sublinear);
  json.set("terms", std::move(terms));
  if (!rarity_.empty()) json.set("idf", std::move(rarity));
  return json;
}

void TermBag::number_terms() {
  for (size_t i = 0; i < terms_.size(); ++i) places_.emplace(terms_[i], static_cast<int32_t>(i));
}

void TermBag::each_term(std::string_view text, const std::string& where, const std::function<void(const std::string&)>& take) const {
  const char* const between = options_.units.words ? " " : "";
  std::vector<std::string> last;  // the units before, the latest first
  std::string term;
  for (UnitReader reader(text, options_.units, where); reader.next();) {
    term = reader.unit();
    if (stop_.contains(term)) continue;
    if (stemmer_) term = stemmer_->stem(term);
    last.insert(last.begin(), term);
    if (last.size() > static_cast<size_t>(options_.ngrams)) last.pop_back();
    take(term);
    for (size_t i = 1; i < last.size(); ++i) {
      term.insert(0, last[i] + between);
      take(term);
    }
  }
}

void TermBag::fit(size_t documents, const std::function<std::string_view(size_t)>& document,
                  const std::function<std::string(size_t)>& place) {
  std::unordered_map<std::string, TermCount> counts;
  for (size_t i = 0; i < documents; ++i) {
    const std::string where = place(i);
    each_term(document(i), where, [&](const std::string& term) {
      TermCount& count = counts[term];
      ++count.all;
      if (count.last != i + 1) ++count.documents, count.last = i + 1;
      if (counts.size() > kMaxDifferentTerms)
        throw Error(ErrorKind::resources, {.where = where, .what = "there are too many different terms", .hint = "make 'ngrams' smaller"});
    });
  }
  std::vector<std::pair<const std::string*, const TermCount*>> kept;
  for (const auto& [term, count] : counts)
    if (count.documents >= options_.min_count) kept.emplace_back(&term, &count);
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
    return a.second->all != b.second->all ? a.second->all > b.second->all : *a.first < *b.first;
  });
  if (static_cast<int64_t>(kept.size()) > options_.max_size) kept.resize(static_cast<size_t>(options_.max_size));
  if (kept.empty())
    throw Error(ErrorKind::data, {.where = documents > 0 ? place(0) : "documents",
                                  .what = "there is no term to count",
                                  .got = std::to_string(counts.size()) + " different ones in " + std::to_string(documents) + " documents",
                                  .expected = "one in at least " + std::to_string(options_.min_count) + " (min_count)"});
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return *a.first < *b.first; });
  for (const auto& [term, count] : kept) {
    terms_.push_back(*term);
    if (options_.weight != TermWeight::tfidf) continue;
    rarity_.push_back(
        static_cast<float>(std::log((1.0 + static_cast<double>(documents)) / (1.0 + static_cast<double>(count->documents))) + 1));
  }
  number_terms();
}

TermRow TermBag::row(std::string_view text, const std::string& where) const {
  std::vector<uint32_t> found;
  each_term(text, where, [&](const std::string& term) {
    if (const auto place = places_.find(term); place != places_.end()) found.push_back(static_cast<uint32_t>(place->second));
  });
  std::sort(found.begin(), found.end());
  TermRow row;
  double squares = 0;
  for (size_t i = 0, next = 0; i < found.size(); i = next) {
    while (next < found.size() && found[next] == found[i]) ++next;
    double value = static_cast<double>(next - i);
    if (options_.weight == TermWeight::binary) value = 1;
    if (options_.sublinear) value = 1 + std::log(value);
    if (options_.weight == TermWeight::tfidf) value *= static_cast<double>(rarity_[found[i]]);
    squares += value * value;
    row.places.push_back(found[i]);
    row.values.push_back(static_cast<float>(value));
  }
  if (options_.weight == TermWeight::tfidf)
    for (float& value : row.values) value = static_cast<float>(static_cast<double>(value) / std::sqrt(squares));
  return row;
}

}  // namespace perigee
