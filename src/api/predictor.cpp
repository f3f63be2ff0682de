// perigee.h: predictors.
#include "src/model/predictor.h"

#include "src/api/handles.h"

using namespace perigee;

struct perigee_predictor {
  std::shared_ptr<const ContextState> context;
  mutable Message message;
  std::unique_ptr<Predictor> predictor;
  size_t row = 0;  // bytes of an example's output
};

namespace {

struct Answer {
  perigee_status status;
  const char* message;  // null: it stands in the request
};

Answer answer_of(Predictor::Outcome outcome) {
  switch (outcome) {
    case Predictor::Outcome::answered: return {PERIGEE_OK, ""};
    case Predictor::Outcome::queue_full: return {PERIGEE_BUSY, "the predictor's queue is full"};
    case Predictor::Outcome::too_late: return {PERIGEE_TIMEOUT, "the request was not begun in time"};
    case Predictor::Outcome::cancelled: return {PERIGEE_STOPPED, "the request was cancelled"};
    case Predictor::Outcome::failed: break;  // says why
  }
  return {PERIGEE_INTERNAL, "unknown outcome"};
}

// Null when the call is fine. Texts are constant: a request allocates nothing, nor when it fails.
const char* wrong_call(const perigee_predictor& handle, const void* const* inputs, int32_t count, int64_t examples, const void* output,
                       size_t output_bytes, int64_t timeout_us) {
  const Predictor& predictor = *handle.predictor;
  if (count != static_cast<int32_t>(predictor.inputs().size())) return "the model has another number of inputs";
  if (!inputs || !output) return "inputs and output must not be null";
  for (int32_t i = 0; i < count; ++i)
    if (!inputs[i]) return "an input must not be null";
  if (examples < 1 || examples > predictor.options().max_batch) return "the number of examples must lie in 1 to the predictor's max_batch";
  if (output_bytes / std::max<size_t>(handle.row, 1) < static_cast<size_t>(examples)) return "the memory for the output is too small";
  if (timeout_us < 0) return "the timeout must not be negative";
  return nullptr;
}

Answer answer(perigee_predictor& handle, const void* const* inputs, int32_t input_count, int64_t examples, void* output,
              size_t output_bytes, perigee_request& given) {
  if (const char* wrong = wrong_call(handle, inputs, input_count, examples, output, output_bytes, given.timeout_us))
    return {PERIGEE_USAGE, wrong};
  Predictor::Request request{
      .inputs = inputs, .output = static_cast<std::byte*>(output), .examples = examples, .timeout_us = given.timeout_us, .tag = given.tag};
  const Predictor::Outcome outcome = handle.predictor->predict(request);
  given.model = request.model;
  given.batch = request.batch;
  if (outcome == Predictor::Outcome::failed) {
    static_assert(sizeof given.message == sizeof request.failure);
    std::memcpy(given.message, request.failure, sizeof given.message);
    return {PERIGEE_RESOURCES, nullptr};
  }
  return answer_of(outcome);
}

// Where the model computes; empty: on the host.
std::string device_of(const perigee_model& model) {
  if (!model.training) return model.context->device;
  const std::string device = device_of(model.job());
  return model.training->trainer->backend() == Backend::cuda && !device.starts_with("check:") ? device : "";
}

int64_t number_or(int32_t given, int64_t fallback) { return given == 0 ? fallback : given; }

}  // namespace

extern "C" {

perigee_status perigee_predictor_create(perigee_model* model, const perigee_predictor_options* options, perigee_predictor** out) noexcept {
  if (out) *out = nullptr;
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    require(out != nullptr, "perigee_predictor_create", "out must not be null");
    const auto given = read_struct(options, "perigee_predictor_create");
    auto handle = std::make_unique<perigee_predictor>();
    handle->context = model->context;
    const std::lock_guard lock(model->turns());
    const PredictorOptions chosen{.max_batch = number_or(given.max_batch, 32),
                                  .max_queue = number_or(given.max_queue, 1024),
                                  .fill_wait_us = given.fill_wait_us,
                                  .lanes = std::max(1, given.threads),
                                  .device = device_of(*model)};
    handle->predictor = std::make_unique<Predictor>(model->model(), model->job(), chosen);
    const Type& output = handle->predictor->output();
    handle->row = static_cast<size_t>(output.shape.elements()) * dtype_bytes(output.dtype);
    *out = handle.release();
  });
}

void perigee_predictor_free(perigee_predictor* predictor) noexcept { const std::unique_ptr<perigee_predictor> owned(predictor); }

const char* perigee_predictor_message(const perigee_predictor* predictor) noexcept { return predictor ? predictor->message.get() : ""; }

// No guard: it takes locks that all callers of the library share.
perigee_status perigee_predictor_predict(perigee_predictor* predictor, const void* const* inputs, int32_t input_count, int64_t examples,
                                         void* output, size_t output_bytes, perigee_request* request) noexcept {
  if (!predictor) return PERIGEE_USAGE;
  perigee_request given{};
  try {
    given = read_struct(request, "perigee_predictor_predict");
    given.model = 0;
    given.batch = 0;
    const Answer result = answer(*predictor, inputs, input_count, examples, output, output_bytes, given);
    if (result.message) std::strncpy(given.message, result.message, sizeof given.message - 1);
    write_struct(given, request, "perigee_predictor_predict");
    return result.status;
  } catch (const Error&) {  // the struct's size is wrong: there is no place for a message
    return PERIGEE_USAGE;
  } catch (const std::exception&) {
    return PERIGEE_INTERNAL;
  }
}

perigee_status perigee_predictor_swap(perigee_predictor* predictor, perigee_model* model, uint64_t* number) noexcept {
  if (number) *number = 0;
  if (!predictor) return PERIGEE_USAGE;
  return guard(*predictor->context, predictor->message, [&] {
    require(model != nullptr, "perigee_predictor_swap", "model must not be null");
    const std::lock_guard lock(model->turns());
    const uint64_t made = predictor->predictor->swap(model->model(), model->job());
    if (number) *number = made;
  });
}

int64_t perigee_predictor_cancel(perigee_predictor* predictor, uint64_t tag) noexcept {
  return predictor ? predictor->predictor->cancel(tag) : 0;
}
}
