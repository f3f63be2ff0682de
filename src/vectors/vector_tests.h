// How good vectors are, by what people said: similarities of pairs of words, and analogies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/core/json.h"
#include "src/vectors/word_vectors.h"

namespace perigee {

// Lines of two words and a number, between tabs or blanks; lines that begin with # are passed over. {"spearman", "pearson", "pairs", "unknown"}:
// rank correlation of the cosines with the numbers (ties have the mean of their ranks), over pairs whose words are both known, also as small
// letters. Error(data) with the line for what is none of this, and when fewer than two pairs are known.
Json pair_scores(const WordVectors& vectors, std::string_view text, const std::string& where);

// Lines of four words, in sections that begin with ": name", as questions-words.txt of word2vec. {"accuracy", "right", "asked", "unknown",
// "sections": {name: {"right", "asked"}}}: a question is right if of all words but its first three the nearest to b - a + c is the fourth.
Json analogy_scores(const WordVectors& vectors, std::string_view text, const std::string& where, int threads);

// Whichever of the two the text is.
Json vector_scores(const WordVectors& vectors, std::string_view text, const std::string& where, int threads);

}  // namespace perigee
