// Texts as numbers of tokens and back, by a file of Hugging Face's tokenizers (tokenizer.json) or of SentencePiece (.model): the same numbers
// and the same places in the text as those libraries give.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "src/text/normalizers.h"
#include "src/text/pre_tokenizers.h"
#include "src/text/subwords.h"
#include "src/text/token_decoder.h"

namespace perigee {

// A token that is found in the text before anything else is done with it.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false, strip_left = false, strip_right = false, normalized = false, special = false;
};

// The content of a file, as its reader fills it in.
struct TokenizerParts {
  TokenTable table;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  SubwordModelPtr model;
  TokenDecoder decoder;
  std::vector<AddedToken> added;
  std::vector<int32_t> before, after;         // special tokens around a text
  bool trim = false, trim_keeps_one = false;  // blanks are no part of a token's place; one at the beginning is kept
  int64_t max_length = 0;                     // with special tokens; 0: any
  bool truncate_left = false;
  int64_t pad_length = 0, pad_multiple = 0;
  int32_t pad_id = 0;
  bool byte_level = false;  // tokens are written in characters that stand for bytes
  bool pad_left = false;
};

struct TokenEncoding {
  std::vector<int32_t> ids;
  std::vector<TextSpan> places;  // in bytes; 0, 0 for special tokens
};

class TokenCache;

class Tokenizer {
 public:
  static constexpr uint64_t kMaxFile = uint64_t{1} << 28;

  // Error(data) with `where` for what is damaged, and for parts of an unknown type.
  static std::shared_ptr<const Tokenizer> read(std::string_view file, const std::string& where);
  explicit Tokenizer(std::unique_ptr<TokenizerParts> parts);
  ~Tokenizer();

  // Replaces `encoding`. Error(data) naming the byte for what is not UTF-8. `cache` speeds it up, is of one thread and of this
  // tokenizer alone. `offset`: where `text` begins in `where`, for the error.
  void encode(std::string_view text, const std::string& where, bool special_tokens, TokenEncoding& encoding, TokenCache* cache = nullptr,
              uint64_t offset = 0) const;
  // Ids without a token are left out.
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens = true) const;

  // The bytes that the token adds to a text, at its beginning or further on: perhaps only a part of a character.
  std::string piece(int64_t id, bool first) const;

  int64_t size() const { return size_; }       // one more than the largest id
  const std::string* token(int64_t id) const;  // null: none
  int64_t id(std::string_view token) const;    // -1: none
  bool is_special(int64_t id) const;

 private:
  std::vector<WordToken> cut(std::string_view text, uint32_t offset, bool beginning) const;
  void cut_words(Aligned text, bool beginning, std::vector<WordToken>& tokens) const;
  size_t part_end(std::string_view text, size_t from) const;
  TextCut safe_cut() const;
  void trim_places(std::string_view text, TokenEncoding& encoding) const;
  void finish(std::string_view text, bool special_tokens, TokenEncoding& encoding) const;
  bool find_added(std::string_view text, bool normalized, size_t from, size_t done, const AddedToken*& token, TextSpan& span) const;

  std::unique_ptr<TokenizerParts> parts_;
  TextCut cut_ = TextCut::none;
  int64_t size_ = 0;
  std::unordered_set<int32_t> added_ids_;
  std::vector<std::pair<std::string, const AddedToken*>> raw_, normalized_;  // the longest first
  std::vector<bool> raw_first_, normalized_first_;                           // of each first byte
};

// Error(data) naming the byte (`offset` is where `text` begins in `where`) for what is not UTF-8, Error(resources) for more than 2^30 bytes.
void check_text(std::string_view text, const std::string& where, uint64_t offset);

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// The tokens of parts of texts that were cut before: words come again and again.
class TokenCache {
 public:
  TokenCache();
  struct Found {
    const WordToken* tokens;  // places from the part's beginning; null: not there
    size_t count;
  };
  Found find(std::string_view part, unsigned kind) const;
  void add(std::string_view part, unsigned kind, std::span<const WordToken> tokens, uint32_t offset);

 private:
  struct Entry {
    uint64_t hash = 0;
    uint32_t text = 0, tokens = 0;
    uint16_t bytes = 0, count = 0;
  };
  size_t place(std::string_view part, uint64_t hash) const;

  std::vector<Entry> entries_;
  std::string texts_;
  std::vector<WordToken> tokens_;
  size_t used_ = 0;
};

// The readers of the two kinds of files.
std::unique_ptr<TokenizerParts> read_tokenizer_json(std::string_view file, const std::string& where);
std::unique_ptr<TokenizerParts> read_sentence_piece(std::string_view file, const std::string& where);

}  // namespace perigee
