// The options of word vectors, as pg.word_vectors and `perigee vectors train` take them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/vectors/graph_walks.h"
#include "src/vectors/text_corpus.h"

namespace perigee {

extern const Schema word_vectors_schema;

enum class VectorModel {
  skip_gram,  // each word of a window foretells the one in its middle (Mikolov et al. 2013)
  cbow,       // the mean of a window's words foretells it
  dbow,       // the vector of a document foretells each of its words (Le and Mikolov 2014)
  glove,      // products of vectors are near the logarithms of how often words stand near each other (Pennington et al. 2014)
  dm,         // the mean of a window's words and of the document's vector foretells the word in the middle
};

struct VectorOptions {
  std::vector<std::string> files;
  WordForm form;
  VectorModel model = VectorModel::skip_gram;
  int64_t size = 100, window = 5, negative = 5, epochs = 5, threads = 0, min_count = 5, max_words = 0;
  bool hierarchical = false, deterministic = false, shrink = true, mean = true, words_too = false;
  int64_t least_subword = 0, longest_subword = 0, buckets = 0;
  double sample = 1e-3, lr = 0.025, min_lr = 1e-4, noise_exponent = 0.75, glove_most = 100, glove_power = 0.75;
  uint64_t seed = 1;
  bool graph = false, directed = false;  // the files are lists of edges
  WalkRules walks;

  bool has_labels() const { return model == VectorModel::dbow || model == VectorModel::dm; }
  bool joins_inputs() const { return model == VectorModel::cbow || model == VectorModel::dm; }
};

// `given`: an object with the schema's keys. Error(usage) at `where`.
VectorOptions vector_options(const Json& given, const std::string& where);

}  // namespace perigee
