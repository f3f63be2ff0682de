// A text that a model goes on with, piece by piece. It reads the model's parameters where they are: give it a copy (copy_of) of a
// model that trains on meanwhile.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/generate/beam_search.h"
#include "src/generate/generate_options.h"
#include "src/generate/next_scores.h"
#include "src/generate/text_model.h"

namespace perigee {

class Generation {
 public:
  // `model` must outlive this. `job` and `fitted` are those of its file or trainer; `where` begins errors about the texts, whose names
  // follow: "--prompt". Error(usage) for a model that foretells no text, or that goes on from another text than is given; Error(data) for what its
  // vocabulary lacks.
  Generation(Model& model, const Json& job, const Json& fitted, const GenerateOptions& options, std::string where);
  ~Generation();

  // The next piece, not empty; nullopt when the text is complete. A text that may be the beginning of a stop text is held back until that
  // is certain. `cancel`: set, and the text ends where it is.
  std::optional<std::string> next(const std::atomic<bool>* cancel = nullptr);
  int64_t units() const { return made_; }    // so far
  bool stopped() const { return stopped_; }  // by a stop text

 private:
  void make_one();
  bool full() const;
  std::string take(size_t bytes);
  size_t certain() const;

  GenerateOptions options_;
  TextModel text_;
  std::unique_ptr<NextScores> scores_;
  std::unique_ptr<BeamSearch> search_;  // with beams
  Sampler sampler_;
  std::vector<int64_t> all_;  // the prompt, and what came after it
  std::vector<double> row_;
  std::string held_, before_;  // made and not given out; the end of what was
  int64_t made_ = 0;
  bool complete_ = false, stopped_ = false;
};

// A model with the same numbers in memory of its own.
std::unique_ptr<Model> copy_of(const Model& model);

}  // namespace perigee
