#include "src/vectors/jobs/vector_corpus.h"

#include "src/core/error.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee {
namespace {

uint64_t digest_of(const WalkedGraph& graph) {
  uint64_t digest = 0;
  for (int64_t node = 0; node < graph.nodes().size(); ++node) {
    digest = xxh3_64(as_bytes(graph.nodes().name(node)), digest);
    digest = xxh3_64(std::as_bytes(graph.next(node)), digest);
    digest = xxh3_64(std::as_bytes(graph.sums(node)), digest);
  }
  return digest;
}

}  // namespace

VectorCorpus::VectorCorpus(const VectorOptions& options, const std::atomic<bool>* stop) {
  if (options.graph) {
    graph_.emplace(options.files, options.directed);
    graph_digest_ = digest_of(*graph_);
    elements_ = std::make_shared<const ElementTable>(graph_->nodes());
    sequences_ = walk_sequences(*graph_, options.walks);
    return;
  }
  text_.emplace(options.files, options.form);
  WordCounts counts = count_words(*text_, static_cast<int>(options.threads), stop);
  elements_ = std::make_shared<const ElementTable>(counts.words.ranked(options.min_count, options.max_words));
  counts.words = ElementTable();
  if (options.has_labels())
    for (const std::string& name : text_->names()) labels_.add(name, 1);
  if (options.has_labels() && labels_.size() < static_cast<int64_t>(text_->names().size()))
    throw Error(ErrorKind::data, {.where = text_->names()[0], .what = "two files have one name", .hint = "name each file once"});
  sequences_ = text_sequences(*text_, *elements_, std::move(counts.before), options.has_labels());
}

uint64_t VectorCorpus::digest(int64_t part) const { return graph_ ? graph_digest_ : xxh3_64(as_bytes(text_->part_text(part))); }

std::array<int64_t, 2> VectorCorpus::neighbours(int64_t part) const {
  std::array<int64_t, 2> found = {0, 0};
  if (graph_) {
    found[0] = part % elements_->size();
    if (const std::span<const int32_t> next = graph_->next(found[0]); !next.empty()) found[1] = next[0];
    return found;
  }
  size_t count = 0;
  std::vector<std::string_view> sentence;
  for (SentenceReader reader(*text_, part); count < 2 && reader.next(sentence);)
    for (size_t i = 0; i < sentence.size() && count < 2; ++i)
      if (const int32_t number = elements_->find(sentence[i]); number >= 0) found[count++] = number;
  return found;
}

VectorRowCounts vector_rows(int64_t elements, int64_t labels, const VectorOptions& options) {
  return {.inputs = elements + labels + (options.least_subword > 0 ? options.buckets : 0),
          .outputs = (options.negative > 0 ? elements : 0) + (options.hierarchical ? elements - 1 : 0)};
}

}  // namespace perigee
