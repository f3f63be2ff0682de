// A model's answers to records: every output by name, class names and probabilities of classifiers, and on request what layers inside give.
// Reads records with a RecordReader and runs them with an Inference.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/model/inference.h"
#include "src/model/records/record_reader.h"
#include "src/nn/ctc_decode.h"

namespace perigee {

struct PredictedOutput {
  std::string name;
  Type type;            // of one example
  bool layer = false;   // of a layer inside, which was asked for
  int64_t classes = 0;  // of a classifier, whose values are probabilities; two classes may be one value, that of the second
  std::vector<std::string> class_names;  // of the first classes: a network may have more outputs than the data names
  std::optional<int64_t> blank;          // of an output of ctc: the class that stands for no label

  std::string class_name(int64_t number) const;
};

// Results of some records. Values lie by output and example.
struct Predictions {
  std::vector<PredictedOutput> outputs;  // the main one first; layers last
  std::vector<Tensor> values;            // of each output [examples, ...]
  std::vector<int64_t> rows;             // of each example, from 0: rows with gaps may be left out
  // For each example, where the main output is one of ctc: the labels that it spells, and with beams the next most probable ones.
  std::vector<std::vector<LabelSequence>> sequences;
  Json remarks;  // as SourceTraits has them
  int64_t examples() const { return static_cast<int64_t>(rows.size()); }

  // One example's: "index", then of the main output "class", "label" and "probabilities" of a classifier, "labels", "text", "log_probability"
  // and "alternatives" of one of ctc, else "values"; with several
  // outputs "outputs", an object of such by name; with layers "layers", an object of their values by name.
  Json json(int64_t example) const;
  Json json() const;  // a list of all
};
// The probabilities of all classes: those of a single value are two.
std::vector<double> class_probabilities(const PredictedOutput& output, const Tensor& values, int64_t example);
std::vector<double> example_values(const Tensor& values, int64_t example);

// Options of a RecordPredictor.
struct PredictionOptions {
  std::vector<std::string> layers = {};  // whose outputs are given too
  // Label sequences of ctc are searched with so many prefixes at a time; 1: the most probable class of each step.
  int64_t beams = 1;
  bool operator==(const PredictionOptions&) const = default;
};
inline constexpr int64_t kMostAlternatives = 10;

// The outputs that a RecordPredictor gives: the network's outputs of `model`, then layers. `class_names` are those of the main target. Error(usage) for an
// unknown layer, and for beams that the model has no use for.
std::vector<PredictedOutput> predicted_outputs(const Model& model, const std::vector<std::string>& class_names,
                                               const PredictionOptions& options);

// Predicts from records with one model on a team of threads or on devices.
class RecordPredictor {
 public:
  // `model`, `team` and `devices` must outlive this. The rest as predicted_outputs() has it.
  RecordPredictor(Model& model, const std::vector<std::string>& class_names, ThreadTeam& team, std::span<DeviceModel* const> devices = {},
                  const PredictionOptions& options = {});
  ~RecordPredictor();

  const std::vector<PredictedOutput>& outputs() const { return outputs_; }
  // Examples [begin, end) of the records (end -1: to their end), batch by batch in order. False when stopped.
  bool run(const Records& records, int64_t begin, int64_t end, const std::atomic<bool>* stop,
           const std::function<void(const Predictions& batch)>& take);
  // All at once. What a table has and the training data had not is also a warning.
  Predictions all(const Records& records);

 private:
  void decode(const Inference::Result& result, Predictions* batch) const;

  Model& model_;
  std::vector<PredictedOutput> outputs_;
  int64_t beams_;
  std::unique_ptr<Inference> inference_;
};

}  // namespace perigee
