// Vectors with names, and what they say of one another: who is near whom, analogies, similarities. Immutable; any number of threads may ask.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/vectors/element_table.h"
#include "src/vectors/vector_rows.h"

namespace perigee {

struct Neighbour {
  int64_t number = 0;    // of the element
  float similarity = 0;  // the cosine of the angle between
};

class WordVectors {
 public:
  WordVectors() = default;
  WordVectors(std::shared_ptr<const ElementTable> names, VectorRows rows);  // a row for each name
  WordVectors(ElementTable names, VectorRows rows);
  // Where `subwords` has rows, words that are not there have the mean of their subwords' vectors.
  void set_subwords(VectorRows subwords, int64_t least, int64_t longest);

  const ElementTable& names() const { return *names_; }
  const VectorRows& rows() const { return rows_; }
  int64_t size() const { return names_->size(); }  // how many there are
  int64_t numbers() const { return rows_.size; }   // of a vector

  bool has(std::string_view name) const { return names_->find(name) >= 0; }
  // Error(data), with the nearest names, for one that has no vector.
  std::vector<float> vector(std::string_view name) const;
  // The mean of the vectors, each made 1 long first; those of `minus` count negatively.
  std::vector<float> mean(const std::vector<std::string>& plus, const std::vector<std::string>& minus = {}) const;
  double similarity(std::string_view a, std::string_view b) const;

  // The most similar ones, best first, without those named in `except`.
  std::vector<Neighbour> nearest(std::span<const float> query, int64_t count, const std::vector<std::string>& except = {}) const;
  // The best one for each of several queries, rows of rows().width numbers, without `except[i]`; on `threads` threads.
  std::vector<Neighbour> best(const VectorRows& queries, const std::vector<std::vector<int64_t>>& except, int threads) const;

  // A row made 1 long; all 0 stays so.
  void unit(int64_t number, float* out) const;

 private:
  int64_t number_of(std::string_view name) const;
  [[noreturn]] void fail_unknown(std::string_view name) const;

  std::shared_ptr<const ElementTable> names_ = std::make_shared<const ElementTable>();
  VectorRows rows_, subwords_;
  std::vector<float> scales_;  // 1 / length of each row
  int64_t least_ = 0, longest_ = 0;
};

}  // namespace perigee
