#include "src/vectors/sequences.h"

#include <algorithm>

#include "src/core/thread_team.h"

namespace perigee {
namespace {

class TextSequences final : public Sequences {
 public:
  TextSequences(const TextCorpus& corpus, const ElementTable& words, std::vector<int64_t> before, bool labelled)
      : corpus_(corpus), words_(words), before_(std::move(before)), labelled_(labelled) {}
  int64_t parts() const override { return corpus_.parts(); }
  int64_t before(int64_t part) const override { return before_[static_cast<size_t>(part)]; }
  void read(int64_t part, uint64_t, SequenceBlock& block) const override {
    block.clear();
    SentenceReader reader(corpus_, part);
    std::vector<std::string_view> sentence;
    while (reader.next(sentence)) {
      const size_t begin = block.elements.size();
      for (const std::string_view word : sentence)
        if (const int32_t number = words_.find(word); number >= 0) block.elements.push_back(number);
      if (block.elements.size() == begin) continue;
      block.ends.push_back(block.elements.size());
      if (labelled_) block.labels.push_back(static_cast<int32_t>(corpus_.document(part)));
    }
    corpus_.leave(part);
  }

 private:
  const TextCorpus& corpus_;
  const ElementTable& words_;
  std::vector<int64_t> before_;
  bool labelled_;
};

class HeldSequences final : public Sequences {
 public:
  explicit HeldSequences(const SequenceBlock& all) : all_(all) {
    size_t wanted = std::clamp<size_t>(all.elements.size() / 256, 256, 65536), begin = 0;
    firsts_.push_back(0);
    for (size_t i = 0; i < all.ends.size(); ++i)
      if (all.ends[i] - begin >= wanted) firsts_.push_back(i + 1), begin = all.ends[i];
    if (firsts_.back() < all.ends.size()) firsts_.push_back(all.ends.size());
  }
  int64_t parts() const override { return static_cast<int64_t>(firsts_.size()) - 1; }
  int64_t before(int64_t part) const override {
    const size_t first = firsts_[static_cast<size_t>(part)];
    return first == 0 ? 0 : static_cast<int64_t>(all_.ends[first - 1]);
  }
  void read(int64_t part, uint64_t, SequenceBlock& block) const override {
    block.clear();
    for (size_t i = firsts_[static_cast<size_t>(part)]; i < firsts_[static_cast<size_t>(part) + 1]; ++i) {
      const std::span<const int32_t> sequence = all_.sequence(i);
      block.elements.insert(block.elements.end(), sequence.begin(), sequence.end());
      block.ends.push_back(block.elements.size());
      if (!all_.labels.empty()) block.labels.push_back(all_.labels[i]);
    }
  }

 private:
  const SequenceBlock& all_;
  std::vector<size_t> firsts_;  // sequence of each part
};

}  // namespace

WordCounts count_words(const TextCorpus& corpus, int threads, const std::atomic<bool>* stop) {
  const int64_t parts = corpus.parts();
  ThreadTeam team(static_cast<int>(std::clamp<int64_t>(threads, 1, parts)));
  std::vector<ElementTable> tables(static_cast<size_t>(team.size()));
  std::vector<int64_t> counts(static_cast<size_t>(parts));
  std::atomic<int64_t> next{0};
  team.run([&](Team& self) {
    ElementTable& table = tables[static_cast<size_t>(self.rank())];
    std::vector<std::string_view> sentence;
    for (int64_t part = next++; part < parts && !(stop != nullptr && *stop); part = next++) {
      SentenceReader reader(corpus, part);
      while (reader.next(sentence)) {
        counts[static_cast<size_t>(part)] += static_cast<int64_t>(sentence.size());
        for (const std::string_view word : sentence) table.add(word, 1);
      }
      corpus.leave(part);
    }
  });
  WordCounts result{.words = std::move(tables[0]), .before = {0}};
  for (size_t i = 1; i < tables.size(); ++i) {
    for (int64_t number = 0; number < tables[i].size(); ++number) result.words.add(tables[i].name(number), tables[i].count(number));
    tables[i] = ElementTable();
  }
  for (const int64_t count : counts) result.before.push_back(result.before.back() + count);
  return result;
}

std::unique_ptr<Sequences> text_sequences(const TextCorpus& corpus, const ElementTable& words, std::vector<int64_t> before, bool labelled) {
  return std::make_unique<TextSequences>(corpus, words, std::move(before), labelled);
}

std::unique_ptr<Sequences> held_sequences(const SequenceBlock& all) { return std::make_unique<HeldSequences>(all); }

}  // namespace perigee
