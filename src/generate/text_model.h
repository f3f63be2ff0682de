// A model of text as one that can go on with a text: what it reads (a window of numbers), and the vocabulary that they belong to. A model with an
// encoder goes on with what becomes of another text, which it reads whole.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/model.h"
#include "src/text/text_numbers.h"

namespace perigee {

// Numbers of each input that a network reads besides the text so far, by its name.
using TextMemory = std::map<std::string, std::vector<int64_t>>;

class TextModel {
 public:
  // `job` and `fitted` are those of a model file or a trainer. Error(usage) for a model that foretells no text.
  TextModel(const Model& model, const Json& job, const Json& fitted);

  // The scores of a unit; those of a text's end, where there is one, are the last.
  int64_t vocabulary_size() const { return vocabulary_->size() + (encodes() ? 1 : 0); }
  int64_t context() const { return context_; }                // units that are looked at
  int64_t window() const { return window_; }                  // steps of a row, of which the text has at most context()
  bool every() const { return every_; }                       // the model says what follows each unit of the window, by those before alone
  int64_t unknown() const { return vocabulary_->unknown(); }  // -1: there is none
  bool encodes() const { return read_ != nullptr; }           // it reads one text and writes another
  int64_t end() const { return encodes() ? vocabulary_->size() : -1; }
  const std::string& stepped() const { return stepped_; }  // the input that is the text so far
  // A row has room for several sequences, one of which is the text: the inputs that say how many of its steps there are, and where it begins.
  bool packed() const { return !segments_.empty(); }
  const std::string& count() const { return row_count_; }
  const std::string& segments() const { return segments_; }
  // The numbers of `input`, and how many they are. Error(data) for what is not in the vocabulary or too long, Error(usage) when there is nothing.
  TextMemory memory(std::string_view input, const std::string& where) const;
  // It stands where a window begins before the text does: a line break or a blank, where the vocabulary has one.
  int64_t filler() const { return filler_; }

  // Numbers before the first unit that is made: the prompt's numbers, or an output's beginning and those. Error(data) for what is not in the
  // vocabulary, Error(usage) when there is nothing.
  std::vector<int64_t> numbers(std::string_view prompt, const std::string& where) const;
  // The text that `unit` adds after one that ends as `before` does.
  std::string piece(int64_t unit, std::string_view before) const;

 private:
  void read_text(const Model& model, const Config& learned);
  void read_packed(const Model& model, const Config& learned);
  void read_pairs(const Model& model, const Config& learned);

  std::unique_ptr<TextNumbers> vocabulary_, read_;
  std::string stepped_, whole_, count_;  // inputs by name; empty: there is none
  int64_t length_ = 0;                   // of `whole_`
  std::string row_count_, segments_;     // likewise, of rows of several sequences
  int64_t context_ = 0, window_ = 0, filler_ = 0;
  bool every_ = false;
};

}  // namespace perigee
