// Word vectors from texts, start to end: words are counted, trained on, and asked for.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "src/vectors/jobs/vector_corpus.h"
#include "src/vectors/vector_training.h"
#include "src/vectors/word_vectors.h"

namespace perigee {

class TrainedVectors {
 public:
  // Trains; with `stop` set it ends early and the vectors are what they have become. Error(data) where the texts have too few words.
  TrainedVectors(const VectorOptions& options, const VectorTraining::Report& report, const std::atomic<bool>* stop);
  // The same from sequences that are there already: `sequences` and `labels` may go afterwards. Elements that come less often than min_count are left out.
  TrainedVectors(const std::vector<std::vector<std::string>>& sequences, const std::vector<std::string>& labels,
                 const VectorOptions& options, const VectorTraining::Report& report, const std::atomic<bool>* stop);
  // Rows that were trained elsewhere, [rows, size] of vector_rows(). The corpus is not needed afterwards.
  TrainedVectors(const VectorOptions& options, const VectorCorpus& corpus, const Tensor& inputs, const Tensor& outputs);

  bool complete() const { return complete_; }
  const VectorOptions& options() const { return options_; }
  const WordVectors& words() const { return words_; }
  const WordVectors& documents() const { return documents_; }  // by their file's names or labels; none with skip_gram and cbow

  // The vector of a text that was not trained on. Error(usage) where documents have no vectors, Error(data) when none of its words is known.
  std::vector<float> infer(std::string_view text, int64_t epochs, double lr) const;
  std::vector<float> infer(const std::vector<std::string>& elements, int64_t epochs, double lr) const;

 private:
  void keep(ElementTable labels);
  void train(const Sequences& sequences, ElementTable labels, const VectorTraining::Report& report, const std::atomic<bool>* stop);

  const VectorOptions options_;
  std::shared_ptr<const ElementTable> elements_;
  std::unique_ptr<VectorTraining> training_;  // null once nothing is asked of it
  WordVectors words_, documents_;
  bool complete_ = false;
};

}  // namespace perigee
