#include "src/model/prediction.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "src/core/warning.h"
#include "src/data/table/examples/table_source.h"
#include "src/model/metrics/text_scores.h"

namespace perigee {
namespace {

constexpr int64_t kBatch = 256;

PredictedOutput predicted(const ModelOutput& output, const std::vector<std::string>& class_names) {
  PredictedOutput result{.name = output.name, .type = output.type};
  if (!output.label) return result;
  const int64_t values = output.type.shape.elements();
  result.classes = values == 1 ? 2 : values;
  if (class_names.size() <= static_cast<size_t>(result.classes)) result.class_names = class_names;
  return result;
}

Json list_of(const std::vector<double>& numbers) {
  Json list = Json::array();
  for (const double number : numbers) list.push(number);
  return list;
}

Json labels_of(const LabelSequence& sequence, const PredictedOutput& output) {
  Json json = Json::object(), labels = Json::array();
  for (const int64_t label : sequence.labels) labels.push(label);
  json.set("labels", std::move(labels));
  if (!output.class_names.empty()) json.set("text", label_text(sequence.labels, output.class_names));
  json.set("log_probability", sequence.score);
  return json;
}

void add_sequences(Json& json, const PredictedOutput& output, const std::vector<LabelSequence>& found) {
  const Json best = labels_of(found.at(0), output);
  for (const auto& [key, value] : best.as_object()) json.set(key, value);
  Json others = Json::array();
  for (size_t i = 1; i < found.size(); ++i) others.push(labels_of(found[i], output));
  if (found.size() > 1) json.set("alternatives", std::move(others));
}

void add_result(Json& json, const PredictedOutput& output, const Tensor& values, int64_t example) {
  if (output.classes == 0) {
    json.set("values", list_of(example_values(values, example)));
    return;
  }
  const std::vector<double> p = class_probabilities(output, values, example);
  const int64_t best = std::max_element(p.begin(), p.end()) - p.begin();
  json.set("class", best);
  json.set("label", output.class_name(best));
  json.set("probabilities", list_of(p));
}

int row_field(const DataSource& source) {
  for (size_t i = 0; i < source.fields().size(); ++i)
    if (source.fields()[i].name == kRowField) return static_cast<int>(i);
  return -1;
}

// The batches' parts of one output, one after the other.
Tensor joined(const std::vector<Tensor>& parts, const Type& type, int64_t rows) {
  std::vector<int64_t> dims = type.shape.vector();
  dims.insert(dims.begin(), rows);
  Tensor all(type.dtype, Shape(dims));
  auto* to = static_cast<std::byte*>(all.view().data);
  for (const Tensor& part : parts) {
    std::memcpy(to, part.view().data, part.bytes());
    to += part.bytes();
  }
  return all;
}

// The target that each of model.outputs() foretells first; null: none. There the main output is the first.
std::vector<const NetworkInput*> targets_of(const ModelSpec& spec, size_t outputs) {
  std::vector<const NetworkInput*> targets(outputs, nullptr);
  targets.at(0) = &spec.target;
  for (const LossHead& head : spec.more_heads) {
    const int at = head.output == spec.loss_output ? 0 : head.output == 0 ? spec.loss_output : head.output;
    if (const NetworkInput*& target = targets.at(static_cast<size_t>(at)); target == nullptr) target = &head.target;
  }
  return targets;
}

void give_unit(const TargetUnit& unit, const PredictedOutput& output, Tensor* result) {
  Tensor values = result->to(Dtype::f64);
  double* const numbers = values.data<double>();
  const int64_t elements = output.type.shape.elements(), of_group = elements / static_cast<int64_t>(unit.mean.size());
  for (int64_t i = 0; i < values.elements(); ++i) {
    const auto group = static_cast<size_t>(i % elements / of_group);
    const double deviation = unit.deviation[group];
    numbers[i] = numbers[i] * (deviation > 0 ? deviation : 1) + unit.mean[group];
  }
  *result = values.to(output.type.dtype);
}

// Gives outputs for standardized targets in the units of the data. Parameters of a distribution are not of the target's shape, and stay.
void give_units(const ModelSpec& spec, const std::vector<TargetUnit>& units, Predictions* batch) {
  if (units.empty()) return;
  const std::vector<const NetworkInput*> targets = targets_of(spec, batch->outputs.size());
  for (size_t at = 0; at < targets.size(); ++at)
    for (const TargetUnit& unit : units) {
      const PredictedOutput& output = batch->outputs[at];
      const int64_t elements = output.type.shape.elements();
      if (targets[at] == nullptr || targets[at]->name != unit.target || output.classes > 0) continue;
      if (elements == targets[at]->type.shape.elements() && elements % static_cast<int64_t>(unit.mean.size()) == 0)
        give_unit(unit, output, &batch->values[at]);
    }
}

}  // namespace

std::string PredictedOutput::class_name(int64_t number) const {
  return static_cast<size_t>(number) < class_names.size() ? class_names[static_cast<size_t>(number)] : std::to_string(number);
}

std::vector<double> example_values(const Tensor& values, int64_t example) {
  const Tensor row = values.rows(example, example + 1).to(Dtype::f64);
  return {row.data<double>(), row.data<double>() + row.elements()};
}

std::vector<double> class_probabilities(const PredictedOutput& output, const Tensor& values, int64_t example) {
  std::vector<double> p = example_values(values, example);
  if (output.classes == 2 && p.size() == 1) p = {1 - p[0], p[0]};
  return p;
}

Json Predictions::json(int64_t example) const {
  Json result = Json(Json::Object{{"index", rows[static_cast<size_t>(example)]}});
  Json heads = Json::object(), layers = Json::object();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].layer) {
      layers.set(outputs[i].name, list_of(example_values(values[i], example)));
      continue;
    }
    const bool decoded = i == 0 && !sequences.empty();
    const auto add = [&](Json& json) {
      if (decoded) add_sequences(json, outputs[i], sequences[static_cast<size_t>(example)]);
      add_result(json, outputs[i], values[i], example);
    };
    if (i == 0) add(result);
    Json each = Json::object();
    add(each);
    heads.set(outputs[i].name, std::move(each));
  }
  if (heads.as_object().size() > 1) result.set("outputs", std::move(heads));
  if (!layers.as_object().empty()) result.set("layers", std::move(layers));
  return result;
}

Json Predictions::json() const {
  Json list = Json::array();
  for (int64_t i = 0; i < examples(); ++i) list.push(json(i));
  return list;
}

std::vector<PredictedOutput> predicted_outputs(const Model& model, const std::vector<std::string>& class_names,
                                               const PredictionOptions& options) {
  std::vector<PredictedOutput> outputs;
  for (const ModelOutput& output : model.outputs())
    outputs.push_back(predicted(output, outputs.empty() ? class_names : output.class_names));
  outputs.at(0).blank = ctc_blank(model.spec().loss);
  if (outputs[0].blank) outputs[0].class_names = class_names;
  if (options.beams < 1 || options.beams > kMostCtcBeams)
    throw Error(ErrorKind::usage, {.where = "beams",
                                   .what = "there must be at least one, and not too many",
                                   .got = std::to_string(options.beams),
                                   .expected = "1 to " + std::to_string(kMostCtcBeams)});
  if (options.beams > 1 && !outputs[0].blank)
    throw Error(ErrorKind::usage, {.where = "beams",
                                   .what = "search among label sequences, and the model gives none",
                                   .expected = "a model that was trained with the loss 'ctc'",
                                   .hint = "texts are made by perigee generate"});
  const std::vector<std::string>& layers = options.layers;
  for (size_t i = 0; i < layers.size(); ++i)
    if (std::find(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(i), layers[i]) ==
        layers.begin() + static_cast<std::ptrdiff_t>(i))
      outputs.push_back({.name = layers[i], .type = model.layer_output(layers[i]).type, .layer = true});
  return outputs;
}

RecordPredictor::RecordPredictor(Model& model, const std::vector<std::string>& class_names, ThreadTeam& team,
                                 std::span<DeviceModel* const> devices, const PredictionOptions& options)
    : model_(model), outputs_(predicted_outputs(model, class_names, options)), beams_(options.beams) {
  const std::vector<ModelOutput> outputs = model.outputs();
  std::vector<ModelOutput> more(outputs.begin() + 1, outputs.end());
  for (const PredictedOutput& output : outputs_)
    if (output.layer) more.push_back(model.layer_output(output.name));
  if (outputs_[0].blank && model.main_output_ends()) more.push_back(model.steps_output());
  inference_ = std::make_unique<Inference>(model, team, false, kBatch, devices, std::move(more));
}

RecordPredictor::~RecordPredictor() = default;

// Examples whose lengths the model knows have them as the last of the further outputs.
void RecordPredictor::decode(const Inference::Result& result, Predictions* batch) const {
  if (!outputs_[0].blank) return;
  const View output = batch->values[0].view();
  const int64_t* const steps = model_.main_output_ends() ? result.more.back().data<int64_t>() : nullptr;
  for (int64_t i = 0; i < result.count; ++i)
    batch->sequences.push_back(
        ctc_decode(output, i, steps ? steps[i] : output.dims[2], *outputs_[0].blank, beams_, std::min(beams_, kMostAlternatives)));
}

bool RecordPredictor::run(const Records& records, int64_t begin, int64_t end, const std::atomic<bool>* stop,
                          const std::function<void(const Predictions& batch)>& take) {
  const DataSource& source = *records.source;
  if (end < 0) end = source.size();
  inference_->forget_queued();  // of a run that failed
  Loader loader(records.source, {.batch = inference_->max_batch(), .shuffle = false, .threads = 0});
  loader.seek(0, begin);
  std::vector<size_t> fields;
  for (const NetworkInput& input : model_.spec().inputs) fields.push_back(static_cast<size_t>(field_index(source, input.name)));
  const int row = row_field(source);
  std::deque<std::vector<int64_t>> numbers;  // of the batches that are on their way
  const auto give = [&] {
    const Inference::Result& result = inference_->take();
    Predictions batch{.outputs = outputs_, .values = {result.output.rows(0, result.count)}, .rows = std::move(numbers.front())};
    for (size_t i = 0; i + 1 < outputs_.size(); ++i) batch.values.push_back(result.more[i].rows(0, result.count));
    decode(result, &batch);
    give_units(model_.spec(), records.units, &batch);
    numbers.pop_front();
    take(batch);
  };
  for (int64_t done = begin; done < end;) {
    if (stop != nullptr && *stop) return false;
    const Batch& batch = loader.next();
    while (inference_->queued() >= inference_->ahead()) give();
    std::vector<const std::byte*> rows;
    for (const size_t field : fields) rows.push_back(static_cast<const std::byte*>(batch.fields[field].view().data));
    const int64_t count = std::min(batch.size, end - done);
    std::vector<int64_t>& own = numbers.emplace_back();
    for (int64_t i = 0; i < count; ++i) own.push_back(row < 0 ? done + i : batch.fields[static_cast<size_t>(row)].data<int64_t>()[i]);
    inference_->queue(rows, count);
    done += count;
  }
  while (inference_->queued() > 0) give();
  return true;
}

Predictions RecordPredictor::all(const Records& records) {
  Predictions sum{.outputs = outputs_, .remarks = records.source->traits().remarks};
  if (const std::vector<BadRow> bad = bad_rows(sum.remarks); !bad.empty()) throw Error(ErrorKind::data, {.what = bad[0].message});
  std::vector<std::vector<Tensor>> parts(outputs_.size());
  run(records, 0, -1, nullptr, [&](const Predictions& batch) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(batch.values[i].clone());
    sum.rows.insert(sum.rows.end(), batch.rows.begin(), batch.rows.end());
    sum.sequences.insert(sum.sequences.end(), batch.sequences.begin(), batch.sequences.end());
  });
  for (size_t i = 0; i < parts.size(); ++i) sum.values.push_back(joined(parts[i], outputs_[i].type, sum.examples()));
  for (const std::string& line : remark_lines(sum.remarks)) warn(line);
  return sum;
}

}  // namespace perigee
