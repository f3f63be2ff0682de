// Reading outputs and targets row by row: what all evaluations share.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/json.h"
#include "src/tensor/tensor.h"

namespace perigee {

inline double element(const View& view, int64_t i) {
  switch (view.dtype) {
    case Dtype::f32: return view.as<float>()[i];
    case Dtype::f64: return view.as<double>()[i];
    case Dtype::i64: return static_cast<double>(view.as<int64_t>()[i]);
    case Dtype::i32: return view.as<int32_t>()[i];
    case Dtype::u8: return view.as<uint8_t>()[i];
    default: throw Error(ErrorKind::model, {"evaluation", "outputs and targets must be numbers", dtype_name(view.dtype)});
  }
}

// Outputs and targets as tables of `rows` x `columns`. A target of one column under an output of several is a class label.
struct Rows {
  View output, target;
  int64_t count = 0, columns = 1, target_columns = 1;

  Rows(const Tensor& out, const Tensor& wanted, int64_t rows) : output(out.view()), target(wanted.view()) {
    const int64_t have = out.shape().rank() > 0 ? out.shape()[0] : 0;
    count = rows < 0 ? have : rows;
    if (wanted.shape().rank() == 0 || count > have || count > wanted.shape()[0] || !output.contiguous() || !target.contiguous())
      throw Error(ErrorKind::model, {"evaluation", "outputs and targets do not fit", out.shape().text() + " and " + wanted.shape().text()});
    if (have > 0) columns = out.elements() / have;
    if (wanted.shape()[0] > 0) target_columns = wanted.elements() / wanted.shape()[0];
  }

  double out(int64_t row, int64_t column) const { return element(output, row * columns + column); }
  double wanted(int64_t row, int64_t column) const { return element(target, row * target_columns + column); }

  // Error unless both have the same columns.
  void require_same_columns(const char* evaluation) const {
    if (columns == target_columns) return;
    throw Error(ErrorKind::model,
                {evaluation, "outputs and targets have different sizes", std::to_string(columns) + " and " + std::to_string(target_columns),
                 "the same number of values per example"});
  }

  // The class of a row's target: its label, or the largest entry of a distribution.
  int64_t label(int64_t row, int64_t classes) const {
    if (target_columns > 1) {
      int64_t best = 0;
      for (int64_t c = 1; c < target_columns; ++c)
        if (wanted(row, c) > wanted(row, best)) best = c;
      return best;
    }
    const double value = wanted(row, 0);
    if (!(value >= 0) || value >= static_cast<double>(classes) || value != std::floor(value))
      throw Error(ErrorKind::data, {"evaluation", "a label is out of range", std::to_string(value),
                                    "a whole number from 0 to " + std::to_string(classes - 1)});
    return static_cast<int64_t>(value);
  }

  // The probability of class `c`; one column is the probability of class 1 of two.
  double probability(int64_t row, int64_t c) const { return columns > 1 ? out(row, c) : c == 1 ? out(row, 0) : 1 - out(row, 0); }

  // How many classes the output speaks of; Error when the target disagrees.
  int64_t classes() const {
    const int64_t n = columns > 1 ? columns : 2;
    if (target_columns > 1 && target_columns != n)
      throw Error(ErrorKind::model, {"evaluation", "outputs and targets have different numbers of classes",
                                     std::to_string(n) + " and " + std::to_string(target_columns)});
    return n;
  }
};

inline double weight_of(std::span<const double> weights, int64_t row) { return weights.empty() ? 1 : weights[static_cast<size_t>(row)]; }
// A sum of weights: a whole number where all are.
inline Json count(double sum) { return std::floor(sum) == sum && std::fabs(sum) < 0x1p53 ? Json(static_cast<int64_t>(sum)) : Json(sum); }

// A list of numbers in the state of an evaluation.
inline std::vector<double> number_list(const Config& state, const char* key) {
  const Json* list = state.raw(key);
  if (!list || !list->is_array()) state.fail(key, "must be a list of numbers");
  std::vector<double> numbers;
  for (const Json& number : list->as_array()) {
    if (!number.is_number()) state.fail(key, "must be a list of numbers", number.type_name());
    numbers.push_back(number.as_number());
  }
  return numbers;
}

// A figure that may not be defined.
inline Json figure(double value) { return std::isfinite(value) ? Json(value) : Json(); }
inline Json ratio(double above, double below) { return below > 0 ? Json(above / below) : Json(); }

}  // namespace perigee
