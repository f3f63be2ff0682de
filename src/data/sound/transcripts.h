// Texts of recordings as labels for the loss `ctc`: a number for each character or word, number 0 for its blank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/io/text.h"

namespace perigee {

struct Transcript {
  std::string_view text;
  std::string place;  // for messages: "said.csv:7"
};

class Transcripts {
 public:
  // Options of the source `audio`: unit, lowercase, labels. `known`: fitted() of the training part; null: this is it.
  // Error(data) for a unit that is not in the fitted vocabulary, for a text of more labels than there is room for, and for what is not UTF-8.
  Transcripts(const Config& config, const Config* known, std::span<const Transcript> texts);

  Field field() const;  // y: i64 [labels]; texts of fewer units end with -1
  void read(int64_t index, int64_t* labels) const;
  Json fitted() const;

 private:
  Vocabulary vocabulary_;
  int64_t room_ = 0;               // labels of an example
  std::vector<int64_t> labels_;    // of all texts, one after the other
  std::vector<size_t> starts_{0};  // of each text in labels_, and the end
};

}  // namespace perigee
