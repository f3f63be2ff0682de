// Trains the vectors of elements by what stands around them (skip-gram, CBOW, and documents' vectors), on several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/pair_loops.h"
#include "src/vectors/draws.h"
#include "src/vectors/huffman.h"
#include "src/vectors/sequences.h"
#include "src/vectors/vector_options.h"
#include "src/vectors/vector_rows.h"

namespace perigee {

struct VectorProgress {
  int64_t done = 0, all = 0;  // elements read, of all epochs
  double seconds = 0;         // since training began
  double speed = 0;           // elements a second, lately
  double remaining = 0;       // seconds, at that speed
  double rate = 0;            // the learning rate
  double loss = 0;            // of a pair, the mean over some of the pairs lately
};

class VectorTraining {
 public:
  // `elements`: in the order of falling counts; must outlive this. `labels`: how many documents have a vector.
  VectorTraining(const ElementTable& elements, int64_t labels, const VectorOptions& options);

  using Report = std::function<void(const VectorProgress&)>;
  // All epochs. False when `stop` was set: the vectors are then what they have become. `report` is called on the caller's thread about
  // `reports_a_second` times.
  bool run(const Sequences& sequences, const Report& report = {}, const std::atomic<bool>* stop = nullptr, double reports_a_second = 2);

  // Rows of the elements, then of the documents, then of the subwords.
  const VectorRows& inputs() const { return inputs_; }
  const VectorRows& outputs() const { return outputs_; }  // of the noise (none: not there), then of the tree
  int64_t labels() const { return labels_; }
  bool has_subwords() const { return !row_begins_.empty(); }
  // Calls take(row) for the rows of which an element's or a document's vector is the mean: one, and those of its subwords.
  template <class Take>
  void each_row(int64_t element, Take&& take) const {
    take(element);
    if (row_begins_.empty() || element >= elements_.size()) return;
    const auto i = static_cast<size_t>(element);
    for (size_t k = row_begins_[i]; k < row_begins_[i + 1]; ++k) take(int64_t{rows_[k]});
  }

  // Where there are subwords, the rows of elements become the vectors of elements; training cannot go on then.
  void finish();

  // The vector of a document that training has not seen: the others stay as they are.
  std::vector<float> infer(std::span<const int32_t> elements, int64_t epochs, double lr, uint64_t seed) const;

 private:
  friend class VectorWorker;
  void make_subwords();

  const ElementTable& elements_;
  const VectorOptions options_;
  const int64_t labels_;
  VectorRows inputs_, outputs_;
  AliasTable noise_;
  HuffmanTree tree_;
  int64_t tree_row_ = 0;  // of the tree's root among the outputs
  std::vector<uint32_t> keep_;
  std::vector<size_t> row_begins_;  // of each element's subwords in rows_; empty without subwords
  std::vector<int32_t> rows_;
  const PairLoops& loops_;
};

}  // namespace perigee
