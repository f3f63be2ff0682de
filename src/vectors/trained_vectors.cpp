#include "src/vectors/trained_vectors.h"

#include "src/core/error.h"
#include "src/vectors/glove.h"

namespace perigee {

TrainedVectors::TrainedVectors(const VectorOptions& options, const VectorTraining::Report& report, const std::atomic<bool>* stop)
    : options_(options) {
  if (options.graph) {
    const WalkedGraph graph(options.files, options.directed);
    elements_ = std::make_shared<const ElementTable>(graph.nodes());
    train(*walk_sequences(graph, options.walks), {}, report, stop);
    return;
  }
  const TextCorpus corpus(options.files, options.form);
  WordCounts counts = count_words(corpus, static_cast<int>(options.threads), stop);
  elements_ = std::make_shared<const ElementTable>(counts.words.ranked(options.min_count, options.max_words));
  counts.words = ElementTable();
  ElementTable labels;
  if (options.has_labels())
    for (const std::string& name : corpus.names()) labels.add(name, 1);
  if (options.has_labels() && labels.size() < static_cast<int64_t>(corpus.names().size()))
    throw Error(ErrorKind::data, {.where = corpus.names()[0], .what = "two files have one name", .hint = "name each file once"});
  train(*text_sequences(corpus, *elements_, std::move(counts.before), options.has_labels()), std::move(labels), report, stop);
}

TrainedVectors::TrainedVectors(const std::vector<std::vector<std::string>>& sequences, const std::vector<std::string>& labels,
                               const VectorOptions& options, const VectorTraining::Report& report, const std::atomic<bool>* stop)
    : options_(options) {
  ElementTable all, names;
  for (const std::vector<std::string>& sequence : sequences)
    for (const std::string& element : sequence) all.add(element, 1);
  elements_ = std::make_shared<const ElementTable>(all.ranked(options.min_count, options.max_words));
  SequenceBlock block;
  for (size_t i = 0; i < sequences.size(); ++i) {
    for (const std::string& element : sequences[i])
      if (const int32_t number = elements_->find(element); number >= 0) block.elements.push_back(number);
    block.ends.push_back(block.elements.size());
    if (options.has_labels()) block.labels.push_back(names.add(i < labels.size() ? labels[i] : std::to_string(i + 1), 1));
  }
  train(*held_sequences(block), std::move(names), report, stop);
}

void TrainedVectors::train(const Sequences& sequences, ElementTable labels, const VectorTraining::Report& report,
                           const std::atomic<bool>* stop) {
  const int64_t words = elements_->size(), documents = labels.size();
  if (options_.model == VectorModel::glove) {
    GloveTraining glove(words, options_);
    complete_ = glove.run(count_together(sequences, options_.window, static_cast<int>(options_.threads), stop), report, stop);
    words_ = WordVectors(elements_, glove.vectors());
    return;
  }
  training_ = std::make_unique<VectorTraining>(*elements_, documents, options_);
  complete_ = training_->run(sequences, report, stop);
  training_->finish();
  const VectorRows& rows = training_->inputs();
  words_ = WordVectors(elements_, rows.slice(0, words));
  if (training_->has_subwords())
    words_.set_subwords(rows.slice(words + documents, rows.rows), options_.least_subword, options_.longest_subword);
  if (documents > 0) documents_ = WordVectors(std::move(labels), rows.slice(words, words + documents));
  else training_.reset();
}

std::vector<float> TrainedVectors::infer(std::string_view text, int64_t epochs, double lr) const {
  std::vector<std::string> elements;
  std::vector<std::string_view> sentence;
  if (!text.empty()) {
    const TextCorpus corpus(text, "the text", options_.form);
    for (int64_t part = 0; part < corpus.parts(); ++part)
      for (SentenceReader reader(corpus, part); reader.next(sentence);) elements.insert(elements.end(), sentence.begin(), sentence.end());
  }
  return infer(elements, epochs, lr);
}

std::vector<float> TrainedVectors::infer(const std::vector<std::string>& elements, int64_t epochs, double lr) const {
  if (!training_)
    throw Error(ErrorKind::usage, {.what = "documents have no vectors here", .hint = "train with model = \"dbow\" or \"dm\""});
  std::vector<int32_t> numbers;
  for (const std::string& element : elements)
    if (const int32_t number = elements_->find(element); number >= 0) numbers.push_back(number);
  if (numbers.empty()) throw Error(ErrorKind::data, {.what = "the text has no word that was trained on"});
  return training_->infer(numbers, epochs, lr, options_.seed);
}

}  // namespace perigee
