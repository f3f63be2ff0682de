// The vectors that a job of word vectors has trained. Their names are those of the corpus, which is read again.
#pragma once

#include <memory>
#include <string>

#include "src/vectors/trained_vectors.h"

namespace perigee {

bool is_stored_vectors(const std::string& path);  // by its name: a folder, or a .safetensors file

// `path`: the folder of a run, or a model or checkpoint. A run that has not ended has the vectors of its last checkpoint. Error(usage) where there
// is none, Error(model) for another network, Error(data) where the corpus has other words by now.
std::unique_ptr<TrainedVectors> stored_vectors(const std::string& path);

}  // namespace perigee
