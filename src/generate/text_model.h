// A model of text as one that can go on with a text: what it reads (a window of numbers), and the vocabulary that they belong to.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/model.h"
#include "src/text/text_numbers.h"

namespace perigee {

class TextModel {
 public:
  // `job` and `fitted` are those of a model file or a trainer. Error(usage) for a model that foretells no text.
  TextModel(const Model& model, const Json& job, const Json& fitted);

  int64_t vocabulary_size() const { return vocabulary_->size(); }
  int64_t context() const { return context_; }                // units of a window
  bool every() const { return every_; }                       // the model says what follows each unit of the window, by those before alone
  int64_t unknown() const { return vocabulary_->unknown(); }  // -1: there is none
  // It stands where a window begins before the text does: a line break or a blank, where the vocabulary has one.
  int64_t filler() const { return filler_; }

  // Error(data) for what is not in the vocabulary, Error(usage) when there is nothing.
  std::vector<int64_t> numbers(std::string_view prompt, const std::string& where) const;
  // The text that `unit` adds after one that ends as `before` does.
  std::string piece(int64_t unit, std::string_view before) const;

 private:
  std::unique_ptr<TextNumbers> vocabulary_;
  int64_t context_ = 0, filler_ = 0;
  bool every_ = false;
};

}  // namespace perigee
