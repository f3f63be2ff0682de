// A model's answers to records: rows of a table by column names, images, texts. Include perigee.hpp instead of this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perigee_handle.hpp"

namespace perigee::api {

struct predict_options {
  std::vector<std::string> layers;  // inner layers whose outputs are wanted too
  perigee_record_format format = PERIGEE_RECORDS_AUTOMATIC;
  std::string name;   // begins messages
  int64_t beams = 0;  // of label sequences of ctc: searched with so many prefixes at a time
};

struct predicted_output {
  std::string name;
  std::vector<int64_t> shape;                 // of one example
  std::vector<float> values = {};             // of all examples, one after the other; of a classifier probabilities
  int64_t classes = 0;                        // of a classifier; of two there may be one value, that of class 1
  std::vector<std::string> class_names = {};  // of the first classes; may be empty
  bool layer = false;
  size_t per_example = 1;  // values

  std::span<const float> of(int64_t example) const {
    return std::span(values).subspan(static_cast<size_t>(example) * per_example, per_example);
  }
  // The most likely class; -1 when this is no classifier.
  int64_t best(int64_t example) const {
    if (classes == 0) return -1;
    const std::span<const float> p = of(example);
    if (p.size() == 1) return p[0] > 0.5f ? 1 : 0;
    return std::max_element(p.begin(), p.end()) - p.begin();
  }
  std::string label(int64_t example) const {
    const int64_t found = best(example);
    return found >= 0 && static_cast<size_t>(found) < class_names.size() ? class_names[static_cast<size_t>(found)] : std::to_string(found);
  }
};

// Results of some records; a copy, which outlives the model.
class prediction {
 public:
  int64_t examples() const { return static_cast<int64_t>(rows_.size()); }
  // The row, from 0, that an example came from: rows with missing values may be left out.
  int64_t row(int64_t example) const { return rows_.at(static_cast<size_t>(example)); }
  // The network's outputs, that of the main loss first, then the layers.
  const std::vector<predicted_output>& outputs() const { return outputs_; }
  const predicted_output& output() const { return outputs_.at(0); }
  const predicted_output& output(std::string_view name) const {
    for (const predicted_output& each : outputs_)
      if (each.name == name) return each;
    throw error(PERIGEE_USAGE, "the prediction has no output '" + std::string(name) + "'");
  }
  // From a model that was trained with ctc: the labels that it reads in an example.
  const std::vector<int64_t>& labels(int64_t example) const { return labels_.at(static_cast<size_t>(example)); }
  const std::string& json() const { return json_; }  // as `perigee predict --json` prints them, in a list
  // Remarks on the records, a line each: categories that the training data had not, rows that were left out.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class model;
  explicit prediction(perigee_prediction* made) {
    const detail::handle<perigee_prediction, perigee_prediction_free> owned(made);
    for (int64_t i = 0; i < perigee_prediction_examples(made); ++i) rows_.push_back(perigee_prediction_row(made, i));
    for (int32_t i = 0; i < perigee_prediction_output_count(made); ++i) outputs_.push_back(read(made, i));
    const int64_t* found = nullptr;
    for (int64_t i = 0, count = 0; i < examples() && (count = perigee_prediction_labels(made, i, &found)) >= 0; ++i)
      labels_.emplace_back(found, found + count);
    for (int32_t i = 0; i < perigee_prediction_warning_count(made); ++i) warnings_.emplace_back(perigee_prediction_warning(made, i));
    char* text = nullptr;
    detail::check(perigee_prediction_json(made, &text), perigee_prediction_message(made));
    json_ = detail::take_text(text);
  }

  static predicted_output read(perigee_prediction* made, int32_t index) {
    perigee_prediction_output_info info{};
    info.size = sizeof info;
    detail::check(perigee_prediction_output(made, index, &info), perigee_prediction_message(made));
    predicted_output output{
        .name = info.name, .shape = {info.shape, info.shape + info.rank}, .classes = info.classes, .layer = info.layer != 0};
    for (const int64_t dim : output.shape) output.per_example *= static_cast<size_t>(dim);
    const size_t count = output.per_example * static_cast<size_t>(perigee_prediction_examples(made));
    const auto copy = [&]<class T>(const T* from) { output.values.assign(from, from + count); };
    if (info.dtype == PERIGEE_F64) copy(static_cast<const double*>(info.data));
    else if (info.dtype == PERIGEE_I64) copy(static_cast<const int64_t*>(info.data));
    else if (info.dtype == PERIGEE_F32) copy(static_cast<const float*>(info.data));
    else throw error(PERIGEE_USAGE, "output '" + output.name + "' holds neither floats nor integers; take it from json()");
    for (int64_t c = 0; const char* name = perigee_prediction_class_name(made, index, c); ++c) output.class_names.emplace_back(name);
    return output;
  }

  std::vector<int64_t> rows_;
  std::vector<predicted_output> outputs_;
  std::vector<std::vector<int64_t>> labels_;  // of each example; empty where the model gives none
  std::string json_;
  std::vector<std::string> warnings_;
};

}  // namespace perigee::api
