// Word vectors as a job that `perigee train` trains: with checkpoints, and on several workers.
#pragma once

#include <string>

#include "src/core/json.h"
#include "src/vectors/jobs/vector_corpus.h"

namespace perigee {

// `given`: the options as vector_options() took them for `options`. `workers`: that will average, 0: not known; without "lr" the learning rate is
// the default's for each of them. Error(usage) for options that no job has.
Json vector_job(const Json& given, const VectorOptions& options, const VectorCorpus& corpus, int64_t workers);

}  // namespace perigee
