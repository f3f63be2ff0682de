// The material that word vectors are trained on: the texts or the graph that the options name, their elements counted, numbered and cut into
// parts. Immutable; any number of threads may read.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "src/vectors/sequences.h"
#include "src/vectors/vector_options.h"

namespace perigee {

class VectorCorpus {
 public:
  // Counts on options.threads threads. Ends early, with what has been counted, when `stop` is set. Error(data) for what is not there, and
  // where two documents have one name.
  explicit VectorCorpus(const VectorOptions& options, const std::atomic<bool>* stop = nullptr);

  const std::shared_ptr<const ElementTable>& elements() const { return elements_; }
  const ElementTable& labels() const { return labels_; }  // of the documents; empty where they have no vectors
  const Sequences& sequences() const { return *sequences_; }

  // For who compares corpora: a hash of the part's text, or of the whole graph; and two elements that stand next to each other there, 0 where
  // there are none.
  uint64_t digest(int64_t part) const;
  std::array<int64_t, 2> neighbours(int64_t part) const;

 private:
  std::optional<TextCorpus> text_;
  std::optional<WalkedGraph> graph_;
  uint64_t graph_digest_ = 0;
  std::shared_ptr<const ElementTable> elements_;
  ElementTable labels_;
  std::unique_ptr<Sequences> sequences_;
};

// How many rows of numbers a training of so many elements and documents has.
struct VectorRowCounts {
  int64_t inputs = 0, outputs = 0;
};
VectorRowCounts vector_rows(int64_t elements, int64_t labels, const VectorOptions& options);

}  // namespace perigee
