// fastText's .bin files, version 12: words, their vectors and those of subwords. Quantised models are refused.
#pragma once

#include <span>
#include <string>

#include "src/io/file.h"
#include "src/vectors/word_vectors.h"

namespace perigee {

bool is_fasttext(std::span<const std::byte> bytes);  // by its first bytes
WordVectors parse_fasttext(std::span<const std::byte> bytes, const std::string& where);

}  // namespace perigee
