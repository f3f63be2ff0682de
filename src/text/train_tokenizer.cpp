#include "src/text/train_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <queue>

#include "src/core/utf8.h"
#include "src/text/normalizers.h"
#include "src/text/pre_tokenizers.h"
#include "src/text/tokenizer.h"

namespace perigee {
namespace {

constexpr size_t kMaxDifferentWords = size_t{1} << 24;

using Pair = uint64_t;  // the first token's number above the second's
Pair pair_of(int32_t first, int32_t second) { return static_cast<Pair>(first) << 32 | static_cast<uint32_t>(second); }

struct Word {
  std::vector<int32_t> tokens;
  int64_t count;
};

// A pair as it was counted when it was put in the queue: counts that have changed since are looked up.
struct TrainTokenizerCandidate {
  int64_t count;
  Pair pair;
  bool operator<(const TrainTokenizerCandidate& other) const { return count != other.count ? count < other.count : pair > other.pair; }
};

class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (uint32_t word = 0; word < words_.size(); ++word)
      for (size_t i = 1; i < words_[word].tokens.size(); ++i) add(words_[word].tokens[i - 1], words_[word].tokens[i], word);
    queue_grown();
  }

  // The most frequent pair; false when none comes `least` times.
  bool next(int64_t least, Pair& pair) {
    while (!queue_.empty()) {
      const TrainTokenizerCandidate top = queue_.top();
      queue_.pop();
      const auto found = counts_.find(top.pair);
      if (found == counts_.end() || found->second.count <= 0) continue;
      if (found->second.count != top.count) {
        queue_.push({found->second.count, top.pair});
        continue;
      }
      pair = top.pair;
      return top.count >= least;
    }
    return false;
  }

  void merge(Pair pair, int32_t merged) {
    const auto first = static_cast<int32_t>(pair >> 32), second = static_cast<int32_t>(pair & 0xFFFFFFFF);
    const std::vector<uint32_t> holders = std::move(counts_[pair].words);
    for (const uint32_t word : holders) {
      std::vector<int32_t>& tokens = words_[word].tokens;
      size_t end = 0;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const bool here = i + 1 < tokens.size() && tokens[i] == first && tokens[i + 1] == second;
        if (here && end > 0) take(tokens[end - 1], first, word), add(tokens[end - 1], merged, word);
        if (here && i + 2 < tokens.size()) take(second, tokens[i + 2], word), add(merged, tokens[i + 2], word);
        tokens[end++] = here ? merged : tokens[i];
        i += here;
      }
      tokens.resize(end);
    }
    counts_.erase(pair);
    queue_grown();
  }

 private:
  struct Count {
    int64_t count = 0;
    std::vector<uint32_t> words;  // that have the pair, or had it; some twice
  };

  void take(int32_t first, int32_t second, uint32_t word) { counts_[pair_of(first, second)].count -= words_[word].count; }
  void add(int32_t first, int32_t second, uint32_t word) {
    Count& count = counts_[pair_of(first, second)];
    count.count += words_[word].count;
    if (count.words.empty() || count.words.back() != word) count.words.push_back(word);
    grown_.push_back(pair_of(first, second));
  }

  void queue_grown() {
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Pair pair : grown_)
      if (const auto found = counts_.find(pair); found != counts_.end()) queue_.push({found->second.count, pair});
    grown_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Count> counts_;
  std::priority_queue<TrainTokenizerCandidate> queue_;
  std::vector<Pair> grown_;
};

Json byte_level() {
  Json json = Json::object();
  json.set("type", "ByteLevel");
  json.set("add_prefix_space", false);
  json.set("trim_offsets", true);
  json.set("use_regex", true);
  return json;
}

Json added_token(int64_t id, const std::string& content) {
  Json json = Json::object();
  json.set("id", id);
  json.set("content", content);
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) json.set(key, false);
  json.set("special", true);
  return json;
}

// The tokens in the order of their numbers.
std::string tokenizer_json(const std::vector<std::string>& tokens, size_t special, Json merges) {
  Json::Object vocabulary;
  for (size_t i = 0; i < tokens.size(); ++i) vocabulary.emplace_back(tokens[i], Json(static_cast<int64_t>(i)));
  Json added = Json::array(), model = Json::object(), json = Json::object();
  for (size_t i = 0; i < special; ++i) added.push(added_token(static_cast<int64_t>(i), tokens[i]));
  model.set("type", "BPE");
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) model.set(key, Json());
  for (const char* key : {"fuse_unk", "byte_fallback", "ignore_merges"}) model.set(key, false);
  model.set("vocab", std::move(vocabulary));
  model.set("merges", std::move(merges));
  json.set("version", "1.0");
  for (const char* key : {"truncation", "padding"}) json.set(key, Json());
  json.set("added_tokens", std::move(added));
  json.set("normalizer", Json());
  for (const char* key : {"pre_tokenizer", "post_processor", "decoder"}) json.set(key, byte_level());
  json.set("model", std::move(model));
  return json.dump();
}

}  // namespace

void BpeTraining::add(std::string_view text, const std::string& where) {
  check_text(text, where, 0);
  for (size_t from = 0; from < text.size();) {
    const size_t line_end = std::min(text.find('\n', from), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, line_end);
    for (size_t end = from; from < line_end; from = end) {
      end = gpt2_word_end(line, from);
      const std::string_view word = line.substr(from, end - from);
      if (const auto found = words_.find(word); found != words_.end()) ++found->second;
      else words_.emplace(word, 1);
    }
    if (words_.size() > kMaxDifferentWords)
      throw Error(ErrorKind::resources, {.where = where,
                                         .what = "the text has too many different words",
                                         .expected = "at most " + std::to_string(kMaxDifferentWords),
                                         .hint = "train the tokenizer on a part of the text"});
  }
}

std::string BpeTraining::train(int64_t size, int64_t min_count, const std::vector<std::string>& special) const {
  assert(size >= kBytes + static_cast<int64_t>(special.size()) && size <= kMaxSize && min_count >= 1);
  std::vector<std::string> tokens = special;
  std::vector<std::pair<char32_t, size_t>> bytes;  // in the order of the characters that stand for them
  for (size_t byte = 0; byte < kBytes; ++byte) bytes.emplace_back(byte_character(static_cast<unsigned char>(byte)), byte);
  std::sort(bytes.begin(), bytes.end());
  std::vector<int32_t> number(kBytes);
  for (const auto& [character, byte] : bytes) {
    number[byte] = static_cast<int32_t>(tokens.size());
    append_utf8(character, tokens.emplace_back());
  }
  std::unordered_map<std::string, int32_t> numbers;
  for (size_t i = 0; i < tokens.size(); ++i) numbers.emplace(tokens[i], static_cast<int32_t>(i));

  std::vector<Word> words;
  words.reserve(words_.size());
  for (const auto& [text, count] : words_) {
    Word& word = words.emplace_back(Word{{}, count});
    for (const char byte : text) word.tokens.push_back(number[static_cast<unsigned char>(byte)]);
  }
  PairCounts pairs(std::move(words));
  Json merges = Json::array();
  for (Pair pair = 0; static_cast<int64_t>(tokens.size()) < size && pairs.next(min_count, pair);) {
    const std::string &first = tokens[pair >> 32], &second = tokens[pair & 0xFFFFFFFF];
    std::string merged = first + second;
    merges.push(first + " " + second);
    const auto [entry, added] = numbers.emplace(merged, static_cast<int32_t>(tokens.size()));
    if (added) tokens.push_back(std::move(merged));
    pairs.merge(pair, entry->second);
  }
  return tokenizer_json(tokens, special.size(), std::move(merges));
}

}  // namespace perigee
