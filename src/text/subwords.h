// The models that cut a word into tokens of a vocabulary: whole words, WordPiece, byte pair encoding, unigram.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/core/config.h"
#include "src/text/aligned.h"

namespace perigee {

// The tokens of a vocabulary and their numbers, which may have gaps.
class TokenTable {
 public:
  static constexpr int64_t kMaxTokens = 1 << 21;

  TokenTable() = default;
  TokenTable(const TokenTable&) = delete;  // tokens are found by views of themselves
  // Error(data) when ids lie so far apart, or are so many, that they cannot be a vocabulary's. The first token of a text or of an id counts.
  void assign(std::vector<std::pair<std::string, int64_t>> tokens, const std::string& where);
  int32_t id(std::string_view token) const;                              // -1: none
  const std::string* token(int64_t id) const;                            // null: none
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }  // one more than the largest id
  int32_t byte(unsigned char byte) const;                                // that of "<0x41>"; -1: none
  size_t longest() const { return longest_; }                            // bytes of a token

 private:
  std::vector<std::string> tokens_;
  std::vector<bool> used_;
  std::unordered_map<std::string_view, int32_t> ids_;
  size_t longest_ = 0;
};

// A token of a word: its number and its bytes there.
struct WordToken {
  int32_t id;
  TextSpan span;
};

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // Appends the tokens of `word`, which is not empty and valid UTF-8.
  virtual void cut(std::string_view word, std::vector<WordToken>& tokens) const = 0;
};

using SubwordModelPtr = std::unique_ptr<SubwordModel>;

// One token for the word or the unknown one (-1: a word without a token has none).
SubwordModelPtr word_model(const TokenTable& table, int32_t unknown);
// The longest token first; words beyond `limit` characters are unknown.
SubwordModelPtr word_piece_model(const TokenTable& table, int32_t unknown, std::string prefix, int64_t limit);

struct PairOptions {
  int32_t unknown = -1;        // -1: what has no token disappears
  std::string prefix, suffix;  // of characters that do not begin a word; of those that end one
  bool fuse_unknown = false, byte_fallback = false;
  bool whole_words = false;  // a word that is a token is not cut
};
struct PairMerge {
  int32_t left, right, joined;
};
// Byte pair encoding: the merges in their order.
SubwordModelPtr pair_model(const TokenTable& table, const std::vector<PairMerge>& merges, PairOptions options);
// The same where any two neighbours that are a token together may join, the highest score first, as SentencePiece has it. Ids whose score is
// not finite join nothing. `whole` are tokens that are never cut.
SubwordModelPtr scored_pair_model(const TokenTable& table, const std::vector<float>& scores, const std::vector<int32_t>& whole,
                                  PairOptions options);

struct UnigramOptions {
  int32_t unknown = -1;
  bool byte_fallback = false;
  bool single_precision = false;  // sums as SentencePiece makes them; Hugging Face's are of double precision
  double unknown_score = 0;
};
// The tokens whose scores have the largest sum. Ids whose score is not finite take no part.
SubwordModelPtr unigram_model(const TokenTable& table, const std::vector<double>& scores, UnigramOptions options);

}  // namespace perigee
