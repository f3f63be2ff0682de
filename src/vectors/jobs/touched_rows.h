// How much a worker changes between two exchanges: most rows of a large vocabulary, or of many documents, stay as they are, and then the codec
// `nonzero` sends the others alone.
#pragma once

#include "src/vectors/jobs/vector_corpus.h"

namespace perigee {

// The share of all rows that some window touches in one of so many equal rounds of an epoch, as far as counts tell: those of subwords and of
// the tree count as touched.
double touched_share(const VectorCorpus& corpus, const VectorOptions& options, double rounds);

}  // namespace perigee
