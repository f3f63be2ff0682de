// Files of vectors. Read: word2vec's binary and text, GloVe's text, fastText's .vec and .bin, gensim's .kv,
// Deeplearning4j's ZIP, a ZIP of one of these, also compressed. Written: word2vec's binary and text, GloVe's text, gensim's .kv. Which one it is, the content says.
#pragma once

#include <span>
#include <string>

#include "src/io/file.h"
#include "src/vectors/word_vectors.h"

namespace perigee {

// Error(data) with the place for what is damaged. A name that comes again is left out, and a warning says how often that was.
WordVectors read_vectors(const std::string& path);
WordVectors parse_vectors(std::span<const std::byte> bytes, const std::string& where);

enum class VectorFormat { binary, text, glove, keyed };
// By the name: .bin is binary, .txt and .vec are text, .kv is keyed. Error(usage) for others.
VectorFormat vector_format(const std::string& path);
void write_vectors(const std::string& path, const WordVectors& vectors, VectorFormat format);

}  // namespace perigee
