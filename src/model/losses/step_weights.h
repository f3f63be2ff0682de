// How much each step of a target counts, worked out from the fields of a batch: by its lengths, masks and weights, and by a loss that ignores
// a class. Training divides by their sum over the whole update, evaluations go by them row by row. The graph computes the same weights for
// the losses themselves (training_loss.cpp).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/data/loader.h"
#include "src/model/model.h"

namespace perigee {

class StepWeights {
 public:
  // Error(data) when `source` has not the fields that the model names.
  StepWeights(const Model& model, const DataSource& source);

  // False: each example counts 1, and the batches are not looked at.
  bool used() const { return used_; }
  // How many weights one example of the main target has.
  int64_t positions() const { return heads_.empty() ? 1 : heads_[0].positions; }
  // The sum over the batch; its size where none is used. Error(data) at where() for a length beyond its field, a mask that is neither 0 nor 1,
  // a weight that is no number, a label that is no class, or targets that count differently.
  template <class Where>
  double sum(const Batch& batch, Where where) const {
    if (!used_ || batch.size == 0) return static_cast<double>(batch.size);
    const std::optional<double> all = sum_of(batch);
    return all ? *all : refuse(batch, where());
  }
  // Those of the main target, positions() for each example of the batch. The batch has passed sum().
  void main(const Batch& batch, std::vector<double>& into) const { fill(heads_[0], batch, into); }

 private:
  struct Part {
    size_t field = 0;
    FieldRole role = FieldRole::none;
    int64_t steps = 0;     // of the last axis that it is about
    int64_t elements = 1;  // of its own field
    std::string of;
  };
  struct Head {
    size_t field = 0;
    int64_t positions = 1, steps = 1;
    int64_t classes = 0;  // labels of counted positions lie below it; 0: it has none
    std::optional<int64_t> ignored;
    std::vector<Part> parts;
  };
  void fill(const Head& head, const Batch& batch, std::vector<double>& into) const;
  std::optional<double> sum_of(const Batch& batch) const;                          // empty: something is wrong
  [[noreturn]] double refuse(const Batch& batch, const std::string& where) const;  // says it
  void check_part(const Part& part, const Batch& batch, const std::string& where) const;

  std::vector<Head> heads_;
  std::vector<Part> inputs_;
  std::vector<std::string> names_;  // of the source's fields
  bool used_ = false;
  mutable std::vector<double> scratch_;
};

}  // namespace perigee
