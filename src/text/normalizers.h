// The first step of a tokenizer: a text is made plain (Unicode's normal forms, small letters, no accents), as "normalizer" of a tokenizer.json says.
#pragma once

#include <functional>
#include <vector>

#include "src/core/config.h"
#include "src/text/aligned.h"

namespace perigee {

struct NormalizerStep {
  std::function<void(Aligned&)> apply;
  // How far one change depends on the characters around it.
  enum class Reach {
    word,       // not beyond the blanks around a word
    blanks,     // blanks become a visible character, each by itself
    beginning,  // for what a text begins with, and only there
    rest,       // for what follows, and only there
    all,
  } reach = Reach::word;
};

using Normalizer = std::vector<NormalizerStep>;

// Error(data) for a type that is not known.
Normalizer read_normalizer(const Json* description, const std::string& where);

// The character that stands for a byte in byte-level vocabularies, and back (-1: none).
char32_t byte_character(unsigned char byte);
int character_byte(char32_t code);
void to_byte_characters(Aligned& text);

}  // namespace perigee
