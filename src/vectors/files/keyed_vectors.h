// gensim's KeyedVectors (.kv of gensim 4): a pickle with the words, and the vectors in it or in FILE.vectors.npy beside it.
#pragma once

#include <span>
#include <string>

#include "src/vectors/word_vectors.h"

namespace perigee {

// Vectors of words; those of subwords are left out. `where`: the file, beside which the array may lie. Error(data).
WordVectors parse_keyed_vectors(std::span<const std::byte> bytes, const std::string& where);
// Two files, as `KeyedVectors.save(path, separately=["vectors"])` has them.
void write_keyed_vectors(const std::string& path, const WordVectors& vectors);

}  // namespace perigee
