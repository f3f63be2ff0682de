// perigee.h: prediction from records.
#include "src/model/prediction.h"

#include "src/api/handles.h"
#include "src/data/table/columnar/arrow/c_table.h"
#include "src/data/table/examples/table_source.h"

using namespace perigee;

namespace {

constexpr int32_t kMostLayers = 4096;

struct Wanted {
  PredictionOptions options;
  RecordFormat format = RecordFormat::automatic;
  std::string name = "records";
};

Wanted read_wanted(const perigee_predict_options* options, const char* function) {
  const perigee_predict_options given = read_struct(options, function);
  Wanted wanted;
  if (given.layer_count < 0 || given.layer_count > kMostLayers)
    misuse(function, "layer_count is out of range", std::to_string(given.layer_count), "0 to " + std::to_string(kMostLayers));
  require(given.layers != nullptr || given.layer_count == 0, function, "layers must not be null");
  for (int32_t i = 0; i < given.layer_count; ++i) {
    require(given.layers[i] != nullptr, function, "a layer's name must not be null");
    wanted.options.layers.emplace_back(given.layers[i]);
  }
  if (given.format < PERIGEE_RECORDS_AUTOMATIC || given.format > PERIGEE_RECORDS_NPZ)
    misuse(function, "there is no such format", std::to_string(given.format), "a perigee_record_format");
  wanted.format = static_cast<RecordFormat>(given.format);
  if (given.beams != 0) wanted.options.beams = given.beams;
  if (given.name) wanted.name = given.name;
  return wanted;
}

RecordPredictor& predictor_of(perigee_model& model, const PredictionOptions& options) {
  if (model.training) return model.training->trainer->record_predictor(options);
  if (!model.predictor || !(model.predictor_options == options)) {
    const auto devices = model.opened_site().devices();
    model.predictor.reset();
    model.predictor = std::make_unique<RecordPredictor>(*model.loaded.model, model.loaded.class_names, *model.team, devices, options);
    model.predictor_options = options;
  }
  return *model.predictor;
}

RecordReader reader_of(const perigee_model& model) {
  if (model.training) return model.training->trainer->record_reader();
  return {model.loaded.model->spec(), model.loaded.job, model.loaded.fitted};
}

template <class Open>
perigee_status predict(perigee_model* model, const char* function, const perigee_predict_options* options, perigee_prediction** out,
                       Open&& open) noexcept {
  if (out) *out = nullptr;
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    require(out != nullptr, function, "out must not be null");
    const Wanted wanted = read_wanted(options, function);
    auto handle = std::make_unique<perigee_prediction>();
    handle->context = model->context;
    const std::lock_guard lock(model->turns());
    const Records records = open(reader_of(*model), wanted);
    const auto in_use = model->in_use();
    handle->results = std::make_shared<const Predictions>(predictor_of(*model, wanted.options).all(records));
    handle->warnings = remark_lines(handle->results->remarks);
    *out = handle.release();
  });
}

const PredictedOutput* output_at(const perigee_prediction* prediction, int32_t index) {
  if (!prediction || index < 0 || static_cast<size_t>(index) >= prediction->results->outputs.size()) return nullptr;
  return &prediction->results->outputs[static_cast<size_t>(index)];
}

}  // namespace

extern "C" {

perigee_status perigee_model_predict_file(perigee_model* model, const char* path, const perigee_predict_options* options,
                                          perigee_prediction** out) noexcept {
  constexpr const char* kHere = "perigee_model_predict_file";
  return predict(model, kHere, options, out, [&](const RecordReader& reader, const Wanted&) {
    require(path != nullptr, kHere, "path must not be null");
    return reader.open_file(path);
  });
}

perigee_status perigee_model_predict_records(perigee_model* model, const void* bytes, size_t byte_count,
                                             const perigee_predict_options* options, perigee_prediction** out) noexcept {
  constexpr const char* kHere = "perigee_model_predict_records";
  return predict(model, kHere, options, out, [&](const RecordReader& reader, const Wanted& wanted) {
    require(bytes != nullptr || byte_count == 0, kHere, "bytes must not be null");
    return reader.open({static_cast<const std::byte*>(bytes), byte_count}, wanted.format, wanted.name);
  });
}

perigee_status perigee_model_predict_arrow(perigee_model* model, struct ArrowArrayStream* stream, const perigee_predict_options* options,
                                           perigee_prediction** out) noexcept {
  tables::arrow::Owned<ArrowArrayStream> taken(stream);  // whatever goes wrong
  return predict(model, "perigee_model_predict_arrow", options, out, [&](const RecordReader& reader, const Wanted& wanted) {
    auto table = std::make_shared<const tables::arrow::HandedTable>(stream ? taken.get() : nullptr, wanted.name);
    return reader.open_table(std::move(table), wanted.name);
  });
}

void perigee_prediction_free(perigee_prediction* prediction) noexcept { const std::unique_ptr<perigee_prediction> owned(prediction); }

const char* perigee_prediction_message(const perigee_prediction* prediction) noexcept {
  return prediction ? prediction->message.get() : "";
}

int64_t perigee_prediction_examples(const perigee_prediction* prediction) noexcept {
  return prediction ? prediction->results->examples() : 0;
}

int64_t perigee_prediction_row(const perigee_prediction* prediction, int64_t example) noexcept {
  if (!prediction || example < 0 || example >= prediction->results->examples()) return -1;
  return prediction->results->rows[static_cast<size_t>(example)];
}

int32_t perigee_prediction_output_count(const perigee_prediction* prediction) noexcept {
  return prediction ? static_cast<int32_t>(prediction->results->outputs.size()) : 0;
}

perigee_status perigee_prediction_output(perigee_prediction* prediction, int32_t index, perigee_prediction_output_info* info) noexcept {
  if (!prediction) return PERIGEE_USAGE;
  return guard(*prediction->context, prediction->message, [&] {
    const PredictedOutput* output = output_at(prediction, index);
    if (!info || !output)
      misuse("perigee_prediction_output", "no such output", std::to_string(index),
             "0 to " + std::to_string(prediction->results->outputs.size() - 1));
    perigee_prediction_output_info found{};
    found.name = output->name.c_str();
    found.dtype = static_cast<perigee_dtype>(static_cast<int>(output->type.dtype) + PERIGEE_F32);
    found.rank = output->type.shape.rank();
    for (int i = 0; i < found.rank; ++i) found.shape[i] = output->type.shape[i];
    found.bytes = static_cast<size_t>(output->type.shape.elements()) * dtype_bytes(output->type.dtype);
    found.classes = output->classes;
    found.layer = output->layer;
    found.data = prediction->results->values[static_cast<size_t>(index)].view().data;
    write_struct(found, info, "perigee_prediction_output");
  });
}

const char* perigee_prediction_class_name(const perigee_prediction* prediction, int32_t output, int64_t number) noexcept {
  const PredictedOutput* found = output_at(prediction, output);
  if (!found || number < 0 || static_cast<size_t>(number) >= found->class_names.size()) return nullptr;
  return found->class_names[static_cast<size_t>(number)].c_str();
}

int64_t perigee_prediction_labels(const perigee_prediction* prediction, int64_t example, const int64_t** labels) noexcept {
  if (labels) *labels = nullptr;
  if (!prediction || example < 0 || static_cast<size_t>(example) >= prediction->results->sequences.size()) return -1;
  const std::vector<int64_t>& found = prediction->results->sequences[static_cast<size_t>(example)].at(0).labels;
  if (labels) *labels = found.data();
  return static_cast<int64_t>(found.size());
}

perigee_status perigee_prediction_json(perigee_prediction* prediction, char** json) noexcept {
  if (json) *json = nullptr;
  if (!prediction) return PERIGEE_USAGE;
  return guard(*prediction->context, prediction->message, [&] {
    require(json != nullptr, "perigee_prediction_json", "json must not be null");
    *json = copy_text(prediction->results->json().dump());
  });
}

int32_t perigee_prediction_warning_count(const perigee_prediction* prediction) noexcept {
  return prediction ? static_cast<int32_t>(prediction->warnings.size()) : 0;
}

const char* perigee_prediction_warning(const perigee_prediction* prediction, int32_t index) noexcept {
  if (!prediction || index < 0 || static_cast<size_t>(index) >= prediction->warnings.size()) return nullptr;
  return prediction->warnings[static_cast<size_t>(index)].c_str();
}
}
