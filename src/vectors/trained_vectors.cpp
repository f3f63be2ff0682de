#include "src/vectors/trained_vectors.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/vectors/glove.h"

namespace perigee {

TrainedVectors::TrainedVectors(const VectorOptions& options, const VectorTraining::Report& report, const std::atomic<bool>* stop)
    : options_(options) {
  const VectorCorpus corpus(options, stop);
  elements_ = corpus.elements();
  train(corpus.sequences(), corpus.labels(), report, stop);
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

TrainedVectors::TrainedVectors(const VectorOptions& options, const VectorCorpus& corpus, const Tensor& inputs, const Tensor& outputs)
    : options_(options), elements_(corpus.elements()), complete_(true) {
  training_ = std::make_unique<VectorTraining>(*elements_, corpus.labels().size(), options_);
  const auto fill = [](const Tensor& from, const VectorRows& to) {
    for (int64_t row = 0; row < to.rows; ++row) std::copy_n(from.data<float>() + row * to.size, to.size, to.row(row));
  };
  fill(inputs, training_->inputs());
  fill(outputs, training_->outputs());
  keep(corpus.labels());
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
  keep(std::move(labels));
}

void TrainedVectors::keep(ElementTable labels) {
  const int64_t words = elements_->size(), documents = labels.size();
  training_->finish();
  const VectorRows rows = training_->inputs();
  const bool subwords = training_->has_subwords();
  if (documents == 0) training_.reset();  // before vectors get their lengths
  words_ = WordVectors(elements_, rows.slice(0, words));
  if (subwords) words_.set_subwords(rows.slice(words + documents, rows.rows), options_.least_subword, options_.longest_subword);
  if (documents > 0) documents_ = WordVectors(std::move(labels), rows.slice(words, words + documents));
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
