// Goes through sequences and makes of them what is trained on step by step: the rows that foretell, and the rows that tell right from wrong.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/pair_loops.h"
#include "src/vectors/draws.h"
#include "src/vectors/huffman.h"
#include "src/vectors/sequences.h"
#include "src/vectors/vector_options.h"

namespace perigee {

struct PairWindow {
  int32_t inputs[kMaxPairInputs];    // elements and, as the number of elements + label, the document
  int32_t outputs[kMaxPairOutputs];  // rows of the outputs
  float labels[kMaxPairOutputs];
  int64_t input_count = 0, output_count = 0;
  float rate = 0;
};

// One thread's way through the parts that it is given.
class WindowReader {
 public:
  struct Rules {
    const VectorOptions& options;
    const Sequences& sequences;
    const ElementTable& elements;
    const AliasTable& noise;
    const HuffmanTree& tree;
    const std::vector<uint32_t>& keep;
    int64_t tree_row;
  };
  explicit WindowReader(const Rules& rules) : rules_(rules) {}

  // Begins a part of an epoch. `rate`: the learning rate of the whole part; 0: it falls with the place in the text.
  void open(uint64_t epoch, int64_t part, float rate = 0);
  // The part's next window; false at its end.
  bool next(PairWindow& window);
  // Elements that were read since the last call.
  int64_t take_read() {
    const int64_t read = read_;
    read_ = 0;
    return read;
  }
  float rate() const { return rate_; }

 private:
  bool next_sequence();
  void add_outputs(int32_t element, PairWindow& window);

  const Rules rules_;
  SequenceBlock block_;
  std::vector<int32_t> kept_;  // of the sequence, without those that are left out
  size_t sequence_ = 0, at_ = 0;
  int64_t label_ = -1, read_ = 0;
  double part_begin_ = 0, part_size_ = 0, all_ = 1;  // in elements
  float rate_ = 0, given_rate_ = 0;
  PartDraws draws_{0, 0, 0};
};

}  // namespace perigee
