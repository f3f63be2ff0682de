// t-SNE: points on a plane whose neighbours are those of vectors in many dimensions (van der Maaten and Hinton 2008), with the forces of far points taken
// together (Barnes-Hut, van der Maaten 2014).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "src/core/config.h"
#include "src/vectors/vector_rows.h"

namespace perigee {

extern const Schema tsne_schema;

struct TsneOptions {
  double perplexity = 30, rate = 0, theta = 0.5, exaggeration = 12;
  int64_t steps = 1000, exaggerated = 250, threads = 1;
  uint64_t seed = 1;
};
TsneOptions tsne_options(const Json& given, const std::string& where);

struct TsneResult {
  VectorRows places;      // [rows, 2]
  double divergence = 0;  // Kullback-Leibler, of the neighbours on the plane from those of the vectors
  bool complete = true;   // false: it was stopped
};
// The same bits for any number of threads. Error(usage) for fewer rows than three times the perplexity and one.
TsneResult tsne(const VectorRows& rows, const TsneOptions& options, const std::atomic<bool>* stop = nullptr);

}  // namespace perigee
