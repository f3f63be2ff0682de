// A source whose examples are the parts of what word vectors are trained on. Who trains (src/train/vector_engine.h) reads the parts themselves;
// the fields of an example tell parts, and texts, apart.
#pragma once

#include "src/data/source.h"
#include "src/vectors/jobs/vector_corpus.h"

namespace perigee {

class VectorSource {
 public:
  virtual ~VectorSource() = default;
  virtual const VectorCorpus& corpus() const = 0;
  virtual const VectorOptions& options() const = 0;
};

// Null: the source has other examples.
inline const VectorSource* vector_source(const DataSource& source) { return dynamic_cast<const VectorSource*>(&source); }

}  // namespace perigee
