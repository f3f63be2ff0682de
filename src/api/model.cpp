// perigee.h: models and their parameters.
#include <cstdlib>
#include <utility>

#include "src/api/handles.h"
#include "src/core/warning.h"

using namespace perigee;

namespace {

size_t model_bytes_of(const Type& type) { return static_cast<size_t>(type.shape.elements()) * dtype_bytes(type.dtype); }

perigee_tensor_info info_of(const std::string& name, const Type& type) {
  perigee_tensor_info info{};
  info.name = name.c_str();
  info.dtype = static_cast<perigee_dtype>(static_cast<int>(type.dtype) + PERIGEE_F32);
  info.rank = type.shape.rank();
  for (int i = 0; i < info.rank; ++i) info.shape[i] = type.shape[i];
  info.bytes = model_bytes_of(type);
  return info;
}

// A parameter's or state's memory by name. Error(usage) with the nearest known name.
Tensor tensor_named(const Params& params, const char* name, size_t bytes, const char* function) {
  require(name != nullptr, function, "name must not be null");
  const int parameter = params.find(name), state = params.find_state(name);
  if (parameter < 0 && state < 0) {
    std::vector<std::string> known;
    for (const ParameterSpec& spec : params.specs()) known.push_back(spec.name);
    for (const StateSpec& spec : params.state_specs()) known.push_back(spec.name);
    throw Error(
        ErrorKind::usage,
        {.where = function, .what = "the model has no parameter or state '" + std::string(name) + "'", .hint = nearest_hint(name, known)});
  }
  Tensor tensor = parameter >= 0 ? params.parameter_tensor(parameter) : params.state_tensor(state);
  if (tensor.bytes() != bytes)
    misuse(function, "the memory for '" + std::string(name) + "' has the wrong size", std::to_string(bytes) + " bytes",
           std::to_string(tensor.bytes()) + " (" + Type{tensor.dtype(), tensor.shape()}.text() + ")");
  return tensor;
}

void give_model(perigee_context& context, LoadedModel loaded, perigee_model** out) {
  auto model = std::make_unique<perigee_model>();
  model->context = context.state;
  model->loaded = std::move(loaded);
  *out = model.release();
}

Inference& inference_of(perigee_model& model) {
  if (model.training) return model.training->trainer->inference();
  if (!model.inference) {
    const auto devices = model.opened_site().devices();
    model.inference = std::make_unique<Inference>(*model.loaded.model, *model.team, false, 256, devices);
  }
  return *model.inference;
}

// For callers that change them.
Params& params_of(perigee_model& model) {
  if (model.training) return model.training->trainer->model().params();
  if (model.site) model.site->host_changed();
  return model.loaded.model->params();
}

void check_inputs(const Model& model, const void* const* inputs, int32_t count, int64_t examples) {
  constexpr const char* kHere = "perigee_model_predict";
  const auto& wanted = model.spec().inputs;
  if (count != static_cast<int32_t>(wanted.size()))
    misuse(kHere, "the model has another number of inputs", std::to_string(count), std::to_string(wanted.size()));
  require(inputs != nullptr, kHere, "inputs must not be null");
  for (int32_t i = 0; i < count; ++i) require(inputs[i] != nullptr, kHere, "an input must not be null");
  if (examples < 0 || examples > int64_t{1} << 40)
    misuse(kHere, "the number of examples is out of range", std::to_string(examples), "0 to 2^40");
}

}  // namespace

extern "C" {

perigee_status perigee_model_load(perigee_context* context, const char* path, perigee_model** out) noexcept {
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(path && out, "perigee_model_load", "path and out must not be null");
    give_model(*context, load_model(path), out);
  });
}

perigee_status perigee_model_load_memory(perigee_context* context, const void* bytes, size_t byte_count, perigee_model** out) noexcept {
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(bytes && out, "perigee_model_load_memory", "bytes and out must not be null");
    give_model(*context, load_model({static_cast<const std::byte*>(bytes), byte_count}, "model in memory"), out);
  });
}

void perigee_model_free(perigee_model* model) noexcept { const std::unique_ptr<perigee_model> owned(model); }

const char* perigee_model_message(const perigee_model* model) noexcept { return model ? model->message.get() : ""; }

perigee_status perigee_model_save(perigee_model* model, const char* path) noexcept {
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    require(path != nullptr, "perigee_model_save", "path must not be null");
    const std::lock_guard lock(model->turns());
    if (model->training) save_model(*model->training->trainer, path);
    else save_model(model->loaded, path);
  });
}

perigee_status perigee_model_save_memory(perigee_model* model, void** bytes, size_t* byte_count) noexcept {
  if (bytes) *bytes = nullptr;
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    require(bytes && byte_count, "perigee_model_save_memory", "bytes and byte_count must not be null");
    const std::lock_guard lock(model->turns());
    const std::vector<std::byte> content = model->training ? model_bytes(*model->training->trainer) : model_bytes(model->loaded);
    *bytes = std::malloc(content.size());
    if (!*bytes) throw std::bad_alloc();
    std::memcpy(*bytes, content.data(), content.size());
    *byte_count = content.size();
  });
}

int32_t perigee_model_tensor_count(perigee_model* model) noexcept {
  if (!model) return 0;
  return static_cast<int32_t>(model->shape().params().specs().size() + model->shape().params().state_specs().size());
}

perigee_status perigee_model_tensor(perigee_model* model, int32_t index, perigee_tensor_info* info) noexcept {
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    const int32_t count = perigee_model_tensor_count(model);
    if (!info || index < 0 || index >= count)
      misuse("perigee_model_tensor", "no such tensor", std::to_string(index), "0 to " + std::to_string(count - 1));
    const Params& params = model->shape().params();
    const auto i = static_cast<size_t>(index), parameters = params.specs().size();
    if (i < parameters) {
      perigee_tensor_info found = info_of(params.specs()[i].name, {params.dtype(), params.specs()[i].shape});
      found.trainable = params.windows()[i].trainable;
      return write_struct(found, info, "perigee_model_tensor");
    }
    const StateSpec& spec = params.state_specs()[i - parameters];
    perigee_tensor_info found = info_of(spec.name, {spec.dtype, spec.shape});
    found.state = 1;
    write_struct(found, info, "perigee_model_tensor");
  });
}

perigee_status perigee_model_read(perigee_model* model, const char* name, void* data, size_t byte_count) noexcept {
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    require(data != nullptr, "perigee_model_read", "data must not be null");
    const std::lock_guard lock(model->turns());
    const Tensor tensor = tensor_named(model->model().params(), name, byte_count, "perigee_model_read");
    std::memcpy(data, tensor.view().data, byte_count);
  });
}

perigee_status perigee_model_write(perigee_model* model, const char* name, const void* data, size_t byte_count) noexcept {
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    require(data != nullptr, "perigee_model_write", "data must not be null");
    const std::lock_guard lock(model->turns());
    const Tensor tensor = tensor_named(params_of(*model), name, byte_count, "perigee_model_write");
    std::memcpy(tensor.view().data, data, byte_count);
  });
}

int32_t perigee_model_input_count(perigee_model* model) noexcept {
  return model ? static_cast<int32_t>(model->shape().spec().inputs.size()) : 0;
}

perigee_status perigee_model_input(perigee_model* model, int32_t index, perigee_tensor_info* info) noexcept {
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    const auto& inputs = model->shape().spec().inputs;
    if (!info || index < 0 || index >= static_cast<int32_t>(inputs.size()))
      misuse("perigee_model_input", "no such input", std::to_string(index), "0 to " + std::to_string(inputs.size() - 1));
    const NetworkInput& input = inputs[static_cast<size_t>(index)];
    write_struct(info_of(input.name, input.type), info, "perigee_model_input");
  });
}

perigee_status perigee_model_output(perigee_model* model, perigee_tensor_info* info) noexcept {
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    require(info != nullptr, "perigee_model_output", "info must not be null");
    static const std::string kName = "output";
    write_struct(info_of(kName, model->shape().output_types().at(0)), info, "perigee_model_output");
  });
}

perigee_status perigee_model_predict(perigee_model* model, const void* const* inputs, int32_t input_count, int64_t examples, void* output,
                                     size_t output_bytes) noexcept {
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    const std::lock_guard lock(model->turns());
    check_inputs(model->shape(), inputs, input_count, examples);
    const size_t row = model_bytes_of(model->shape().output_types().at(0));
    if (output_bytes / std::max<size_t>(row, 1) < static_cast<size_t>(examples))
      misuse("perigee_model_predict", "the memory for the output is too small", std::to_string(output_bytes) + " bytes",
             std::to_string(examples) + " x " + std::to_string(row));
    require(output || examples == 0, "perigee_model_predict", "output must not be null");
    if (!model->training && !model->loaded.fitted.is_null() && !std::exchange(model->told_raw, true))
      warn(
          "perigee_model_predict: the model's numbers are taken raw, without what was fitted on its training data; "
          "perigee_model_predict_records and perigee_model_predict_file apply it");
    const auto in_use = model->in_use();
    inference_of(*model).run_all({inputs, static_cast<size_t>(input_count)}, examples, static_cast<std::byte*>(output));
  });
}
}
