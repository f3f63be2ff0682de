// Facts about code points (classes, small letters, decompositions) from utf8proc, a library that is loaded when a text first has a character
// beyond ASCII.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace perigee {

bool is_letter(char32_t code);       // L*
bool is_numeric(char32_t code);      // N*
bool is_mark(char32_t code);         // M*: what "strip accents" takes away
bool is_nonspacing(char32_t code);   // Mn
bool is_punctuation(char32_t code);  // P*, and all of ASCII that is no letter, digit, blank or control character
bool is_white(char32_t code);        // White_Space
bool is_other(char32_t code);        // C*: control, format, private use
bool is_word(char32_t code);         // what \w of regular expressions is
bool is_ideograph(char32_t code);    // the blocks that BERT puts blanks around

// The code point's small letters: one, or two for U+0130.
std::pair<char32_t, char32_t> small_letters(char32_t code);  // the second is 0 when there is none

// A character and how it stands to the old text: 0 takes the place of the next old one, 1 is added after it, -n also removes the n that follow.
struct Change {
  char32_t code;
  int change;
};

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::vector<Change> normalized(std::string_view text, NormalForm form);

// True where a character that a reader sees ends between the two; `state` begins as 0.
bool grapheme_ends(char32_t before, char32_t after, int& state);

}  // namespace perigee
