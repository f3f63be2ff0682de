// A tokenizer of one's own: byte pairs that are learned from texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/io/text.h"

namespace perigee {

// Byte pair encoding of bytes. Words are cut as GPT-2 cuts them; the pair of tokens that comes most often becomes a token, again and again
// (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"; Radford et al. 2019 for bytes). The same merges in the
// same order as the BpeTrainer of Hugging Face's tokenizers: of pairs that come equally often, the one of smaller numbers first.
class BpeTraining {
 public:
  static constexpr int64_t kBytes = 256, kMaxSize = 1 << 20;

  // Counts the words of each line. Error(data) naming the byte for what is not UTF-8, Error(resources) for more than 2^24 different words.
  void add(std::string_view text, const std::string& where);

  // The content of a tokenizer.json with at most `size` tokens: `special` ones first, then the bytes, then the pairs that come at least
  // `min_count` times. `size` is at least as many as special tokens and bytes, `min_count` at least 1.
  std::string train(int64_t size, int64_t min_count, const std::vector<std::string>& special) const;

 private:
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> words_;
};

}  // namespace perigee
