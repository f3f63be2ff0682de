// Batches read ahead by threads: those of one epoch after another in a seeded order, or those that are listed (batch_order.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/core/trace.h"
#include "src/data/batch_order.h"
#include "src/data/source.h"
#include "src/tensor/tensor.h"

namespace perigee {

struct LoaderOptions {
  int64_t batch = 32;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t shards = 1;          // of the order (sharded_order.h)
  int threads = 1;             // 0: next() reads in the calling thread
  int prefetch = 4;            // batches read ahead
  bool ids_only = false;       // batches without fields, for a reader that has the examples
  TraceRing* trace = nullptr;  // of what the threads read, when; outlives the loader
};

struct Batch {
  uint64_t epoch = 0;          // from 0
  int64_t position = 0;        // of its first example in the epoch's order
  int64_t size = 0;            // examples; the last batch of an epoch may be smaller
  std::vector<int64_t> ids;    // the examples' indices in the source; `size` of them are valid
  std::vector<Tensor> fields;  // one per source field, first dimension = capacity
};

class Loader {
 public:
  static constexpr size_t kMaxListed = 65536;

  Loader(SourcePtr source, LoaderOptions options);
  ~Loader();

  const DataSource& source() const;
  // The next batch; goes on into the next epoch by itself. Valid until the next call. Rethrows what a reading thread met.
  const Batch& next();
  // The next batch is the one that starts at `position` of `epoch`.
  void seek(uint64_t epoch, int64_t position);

  // From now on the batches are those that are listed, in that order, whatever their sizes, and no others; until the next seek().
  // Forgets what was listed and not yet taken.
  void clear_list();
  // Appends a batch; reading ahead begins at once. False when kMaxListed wait. Error(data) when the range is not within one epoch.
  bool list(const BatchRange& range);
  // Listed and not yet taken; next() may only be called when there is one.
  size_t listed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
