// {"type": "vector_corpus", "files": ["books.txt.xz"], "size": 100}: the parts of a text, or of walks over a graph, that word vectors are trained
// on (src/vectors). x and y are the numbers of two words that stand next to each other in the part, digest is a hash of its text.
#include <array>
#include <cstring>

#include "src/data/vector_source.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr const char* kVectorCorpusPositional[] = {"files"};
// The job says these, for all networks alike.
constexpr const char* kOfTheJob[] = {"epochs", "lr", "min_lr", "threads", "seed"};

class VectorParts final : public DataSource, public VectorSource {
 public:
  explicit VectorParts(VectorOptions options) : options_(std::move(options)), corpus_(options_) {
    for (const char* name : {"x", "y", "digest"}) fields_.push_back({.name = name, .dtype = Dtype::i64, .shape = {}});
    for (int64_t part = 0; part < size(); ++part) {
      const auto words = corpus_.neighbours(part);
      values_.push_back({words[0], words[1], static_cast<int64_t>(corpus_.digest(part))});
    }
  }

  int64_t size() const override { return corpus_.sequences().parts(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const std::array<int64_t, 3>& values = values_[static_cast<size_t>(key.index)];
    for (size_t field = 0; field < values.size(); ++field) std::memcpy(slots[field], &values[field], sizeof values[field]);
  }
  SourceTraits traits() const override {
    return {.description = "vector_corpus (" + std::to_string(size()) + " parts, " + std::to_string(corpus_.elements()->size()) +
                           (options_.graph ? " nodes, " : " words, ") + options_.files[0] + (options_.files.size() > 1 ? ", ..." : "") +
                           ")",
            .cheap = true,
            .fixed = true};
  }
  const VectorCorpus& corpus() const override { return corpus_; }
  const VectorOptions& options() const override { return options_; }

 private:
  const VectorOptions options_;
  const VectorCorpus corpus_;
  std::vector<Field> fields_;
  std::vector<std::array<int64_t, 3>> values_;  // of each part
};

SourcePtr open_vector_corpus(const Config& config, const std::string& folder) {
  for (const char* key : kOfTheJob)
    if (config.has(key))
      config.fail(key, "is the job's affair", config.raw(key)->dump(), "no " + std::string(key) + " here",
                  "the job has epochs, seed, threads, and an optimizer with a learning rate");
  Json given = config.json();
  given.erase("type");
  VectorOptions options = vector_options(given, config.where());
  if (options.model == VectorModel::glove)
    config.fail("model", "is fitted to counts of the whole text by one process", "\"glove\"", "another model, or pg.word_vectors");
  for (std::string& file : options.files) file = path_in(folder, file);
  return std::make_shared<VectorParts>(std::move(options));
}

}  // namespace

extern const SourceDef source_vector_corpus;
const SourceDef source_vector_corpus{.type = "vector_corpus",
                                     .doc =
                                         "The parts of a text or a graph that word vectors are trained on, in a job that "
                                         "`perigee vectors job` writes. Options: those of pg.word_vectors but what a job says itself",
                                     .schema = {.positional = kVectorCorpusPositional, .common = &word_vectors_schema},
                                     .open = open_vector_corpus};

}  // namespace perigee
