// perigee.h: functions of tensors: recorded, differentiated, compiled, called.
#include <algorithm>

#include "src/api/tensor_handles.h"

using namespace perigee;

struct perigee_trace {
  std::shared_ptr<const ContextState> context;
  mutable Message message;
  std::shared_ptr<Recording> recording;
};

struct perigee_function {
  std::shared_ptr<const ContextState> context;
  mutable Message message;
  std::mutex mutex;  // of the plans' memory: calls take turns
  std::optional<CompiledFunction> compiled;
};

namespace {

constexpr int32_t kMostThreads = 1024;

std::vector<int> read_donated(const perigee_function_options& options) {
  constexpr const char* kFunction = "perigee_trace_end";
  if (options.threads < 0 || options.threads > kMostThreads) misuse(kFunction, "threads must lie in 0 to 1024");
  if (options.donated_count < 0 || options.donated_count > 4096 || (options.donated_count > 0 && !options.donated))
    misuse(kFunction, "the list of donated arguments is wrong", std::to_string(options.donated_count));
  return {options.donated, options.donated + options.donated_count};
}

// Results have memory of their own once the function is called.
std::vector<int> read_results(Recording& recording, Tensors results) {
  std::vector<int> values;
  for (const perigee_tensor* result : results) {
    require(result != nullptr, "perigee_trace_end", "a result is null");
    values.push_back(value_in(recording, *result));
  }
  return values;
}

}  // namespace

extern "C" {

perigee_status perigee_trace_begin(perigee_context* context, perigee_trace** out) noexcept {
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out != nullptr, "perigee_trace_begin", "out must not be null");
    auto handle = std::make_unique<perigee_trace>();
    handle->context = context->state;
    handle->recording = std::make_shared<Recording>();
    handle->recording->recorder.emplace();
    *out = handle.release();
  });
}

perigee_status perigee_trace_argument(perigee_trace* trace, perigee_tensor* like, perigee_tensor** out) noexcept {
  constexpr const char* kFunction = "perigee_trace_argument";
  if (out) *out = nullptr;
  if (!trace) return PERIGEE_USAGE;
  return guard(*trace->context, trace->message, [&] {
    require(out != nullptr, kFunction, "out must not be null");
    const Type type = numbers_of(like, kFunction).type();
    const std::lock_guard lock(trace->recording->mutex);
    const int value = trace->recording->open().argument(type, like->number);
    give_value(trace->context, trace->recording, value, like->number, out);
  });
}

perigee_status perigee_gradients(perigee_tensor* root, perigee_tensor* const* targets, int32_t count, perigee_tensor** gradients) noexcept {
  constexpr const char* kFunction = "perigee_gradients";
  const bool room = gradients && count >= 0 && count <= 4096;
  const std::span<perigee_tensor*> outputs(gradients, room ? static_cast<size_t>(count) : 0);
  std::fill(outputs.begin(), outputs.end(), nullptr);
  if (!root) return PERIGEE_USAGE;
  const perigee_status status = guard(*root->context, root->message, [&] {
    require(room, kFunction, "gradients must not be null, and at most 4096");
    const Tensors wanted = tensors_of(targets, count, kFunction);
    require(root->recording != nullptr, kFunction, "gradients are of a recorded value");
    const std::lock_guard lock(root->recording->mutex);
    std::vector<int> values;
    for (const perigee_tensor* target : wanted) {
      require(target && target->recording, kFunction, "gradients are with respect to recorded values");
      require(!target->number, kFunction, "gradients are with respect to tensors, not numbers");
      values.push_back(value_in(*root->recording, *target));
    }
    const std::vector<int> found = root->recording->open().gradients(root->value, values);
    for (size_t i = 0; i < found.size(); ++i) give_value(root->context, root->recording, found[i], false, &outputs[i]);
  });
  if (status != PERIGEE_OK) take_back(outputs);
  return status;
}

perigee_status perigee_trace_end(perigee_trace* trace, perigee_tensor* const* results, int32_t count,
                                 const perigee_function_options* options, perigee_function** out) noexcept {
  constexpr const char* kFunction = "perigee_trace_end";
  if (out) *out = nullptr;
  if (!trace) return PERIGEE_USAGE;
  return guard(*trace->context, trace->message, [&] {
    const std::lock_guard lock(trace->recording->mutex);
    trace->recording->open();
    struct End {
      std::optional<Recorder>& recorder;
      ~End() { recorder.reset(); }
    } const end{trace->recording->recorder};
    require(out != nullptr, kFunction, "out must not be null");
    const Tensors given = tensors_of(results, count, kFunction);
    require(!given.empty(), kFunction, "the function has no results");
    const auto read = read_struct(options, kFunction);
    const std::vector<int> donated = read_donated(read), values = read_results(*trace->recording, given);
    auto handle = std::make_unique<perigee_function>();
    handle->context = trace->context;
    handle->compiled.emplace(*end.recorder, values, read.threads > 0 ? read.threads : trace->context->threads, donated);
    *out = handle.release();
  });
}

void perigee_trace_free(perigee_trace* trace) noexcept { const std::unique_ptr<perigee_trace> owned(trace); }

const char* perigee_trace_message(const perigee_trace* trace) noexcept { return trace ? trace->message.get() : ""; }

perigee_status perigee_function_call(perigee_function* function, perigee_tensor* const* arguments, int32_t argument_count,
                                     perigee_tensor** results, int32_t result_count) noexcept {
  constexpr const char* kFunction = "perigee_function_call";
  const bool room = results && result_count >= 0 && result_count <= 4096;
  const std::span<perigee_tensor*> outputs(results, room ? static_cast<size_t>(result_count) : 0);
  std::fill(outputs.begin(), outputs.end(), nullptr);
  if (!function) return PERIGEE_USAGE;
  const perigee_status status = guard(*function->context, function->message, [&] {
    require(room, kFunction, "results must not be null");
    std::vector<Array> in;
    for (const perigee_tensor* each : tensors_of(arguments, argument_count, kFunction)) in.push_back(numbers_of(each, kFunction));
    const std::lock_guard lock(function->mutex);
    if (function->compiled->results() != outputs.size())
      misuse(kFunction, "the function has another number of results", std::to_string(outputs.size()),
             std::to_string(function->compiled->results()));
    std::vector<Array> made = function->compiled->run(in);
    for (size_t i = 0; i < made.size(); ++i) give_tensor(function->context, std::move(made[i]), &outputs[i]);
  });
  if (status != PERIGEE_OK) take_back(outputs);
  return status;
}

void perigee_function_free(perigee_function* function) noexcept { const std::unique_ptr<perigee_function> owned(function); }

const char* perigee_function_message(const perigee_function* function) noexcept { return function ? function->message.get() : ""; }
}
