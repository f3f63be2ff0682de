// The second step of a tokenizer: a plain text is cut into words, as "pre_tokenizer" of a tokenizer.json says.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/text/aligned.h"

namespace perigee {

// Where a text may be cut before anything else is done, so that each part gives the same tokens alone; parts that come again are then looked up.
enum class TextCut {
  none,
  blanks,   // blanks only separate
  spaces,   // before each space
  gpt2,     // a run of blanks, all but its last; then a word with the space before it
  single,   // before a blank that stands alone between two words
  markers,  // before a run of spaces
};

struct PreTokenizer {
  // `beginning`: the words are all of a text, not what follows some of it.
  std::vector<std::function<void(std::vector<Aligned>& words, bool beginning)>> steps;
  TextCut cut = TextCut::none;
};

// Error(data) for a type that is not known.
PreTokenizer read_pre_tokenizer(const Json* description, const std::string& where);

// GPT-2's expression: the end of the match that begins at `from`.
size_t gpt2_word_end(std::string_view text, size_t from);

}  // namespace perigee
