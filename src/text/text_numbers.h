// How a model reads texts: characters or words of a vocabulary that was learned, or the tokens of a tokenizer's file. It is stored with the model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/io/text.h"
#include "src/text/tokenizer.h"

namespace perigee {

class TextNumbers {
 public:
  explicit TextNumbers(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  // `file`: the content of the tokenizer's file.
  TextNumbers(std::string_view file, const std::string& where);
  // From the output of to_json().
  explicit TextNumbers(const Config& config);
  Json to_json() const;

  const Vocabulary* vocabulary() const { return vocabulary_ ? &*vocabulary_ : nullptr; }  // null: tokens
  const TokenizerPtr& tokenizer() const { return tokenizer_; }                            // null: characters or words
  const char* unit() const { return tokenizer_ ? "token" : vocabulary_->units().words ? "word" : "character"; }
  bool between_blanks() const {
    return tokenizer_ || vocabulary_->units().words;
  }  // a text is cut behind blanks, not between any characters
  int64_t size() const { return tokenizer_ ? tokenizer_->size() : vocabulary_->size(); }
  std::vector<std::string> names() const;
  int64_t unknown() const { return tokenizer_ ? -1 : vocabulary_->unknown(); }
  // A blank, where a window begins before its text does.
  int64_t filler() const;

  // Calls `put` for each unit's number. Error(data) naming the byte (`offset` is where `text` begins in `where`) for what is not UTF-8, and, if
  // `refuse_unknown` or there is no number for it, for what is not in the vocabulary.
  void read(std::string_view text, const std::string& where, uint64_t offset, bool refuse_unknown,
            const std::function<void(int64_t)>& put) const;
  // The text that `unit` adds after one that ends as `before` does; tokens may be a part of a character.
  std::string piece(int64_t unit, std::string_view before) const;

 private:
  std::optional<Vocabulary> vocabulary_;
  TokenizerPtr tokenizer_;
  std::string packed_;
};

}  // namespace perigee
