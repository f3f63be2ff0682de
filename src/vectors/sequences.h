// Sequences of elements as training reads them: numbers, part after part, as often as there are epochs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/vectors/element_table.h"
#include "src/vectors/text_corpus.h"

namespace perigee {

// The sequences of one part.
struct SequenceBlock {
  std::vector<int32_t> elements;
  std::vector<size_t> ends;     // of each sequence in `elements`
  std::vector<int32_t> labels;  // of each sequence where there are labels: the number of what it belongs to

  void clear() { elements.clear(), ends.clear(), labels.clear(); }
  std::span<const int32_t> sequence(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return {elements.data() + begin, ends[i] - begin};
  }
};

// Thread-safe.
class Sequences {
 public:
  virtual ~Sequences() = default;
  virtual int64_t parts() const = 0;
  // How many elements come before part `part` in an epoch, which may be an estimate; that of parts() is all of them.
  virtual int64_t before(int64_t part) const = 0;
  // The part's sequences replace what `block` has. A pure function of its arguments.
  virtual void read(int64_t part, uint64_t epoch, SequenceBlock& block) const = 0;
};

// The result of counting a text: its words, and how many there are before each part.
struct WordCounts {
  ElementTable words;  // all, in no order
  std::vector<int64_t> before;
};
// On `threads` threads. Returns early, with what has been counted, when `stop` is set.
WordCounts count_words(const TextCorpus& corpus, int threads, const std::atomic<bool>* stop = nullptr);

// The words of a text that are in `words`; with `labelled` each sentence has the number of its document.
std::unique_ptr<Sequences> text_sequences(const TextCorpus& corpus, const ElementTable& words, std::vector<int64_t> before, bool labelled);

// Sequences that are in memory already, which must outlive this.
std::unique_ptr<Sequences> held_sequences(const SequenceBlock& all);

}  // namespace perigee
