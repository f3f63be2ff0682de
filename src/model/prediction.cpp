#include "src/model/prediction.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "src/core/warning.h"
#include "src/data/table_source.h"

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
    if (i == 0) add_result(result, outputs[i], values[i], example);
    Json each = Json::object();
    add_result(each, outputs[i], values[i], example);
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
                                               const std::vector<std::string>& layers) {
  std::vector<PredictedOutput> outputs;
  for (const ModelOutput& output : model.outputs())
    outputs.push_back(predicted(output, outputs.empty() ? class_names : std::vector<std::string>()));
  for (size_t i = 0; i < layers.size(); ++i)
    if (std::find(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(i), layers[i]) ==
        layers.begin() + static_cast<std::ptrdiff_t>(i))
      outputs.push_back({.name = layers[i], .type = model.layer_output(layers[i]).type, .layer = true});
  return outputs;
}

RecordPredictor::RecordPredictor(Model& model, const std::vector<std::string>& class_names, ThreadTeam& team,
                                 std::span<DeviceModel* const> devices, const std::vector<std::string>& layers)
    : model_(model), outputs_(predicted_outputs(model, class_names, layers)) {
  const std::vector<ModelOutput> outputs = model.outputs();
  std::vector<ModelOutput> more(outputs.begin() + 1, outputs.end());
  for (const PredictedOutput& output : outputs_)
    if (output.layer) more.push_back(model.layer_output(output.name));
  inference_ = std::make_unique<Inference>(model, team, false, kBatch, devices, std::move(more));
}

RecordPredictor::~RecordPredictor() = default;

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
    for (const Tensor& more : result.more) batch.values.push_back(more.rows(0, result.count));
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
  std::vector<std::vector<Tensor>> parts(outputs_.size());
  run(records, 0, -1, nullptr, [&](const Predictions& batch) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(batch.values[i].clone());
    sum.rows.insert(sum.rows.end(), batch.rows.begin(), batch.rows.end());
  });
  for (size_t i = 0; i < parts.size(); ++i) sum.values.push_back(joined(parts[i], outputs_[i].type, sum.examples()));
  for (const std::string& line : remark_lines(sum.remarks)) warn(line);
  return sum;
}

}  // namespace perigee
