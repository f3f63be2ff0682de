// Perigee for C++20 programs: header-only over perigee.h. Networks, optimisers, data and whole experiments are written as C++ and
// become the same JSON job that a Lua script becomes.
//
//     auto net = pg::sequential(pg::conv2d(20, {.kernel = 5, .activation = pg::relu}), pg::maxpool(2),
//                               pg::dense(200, {.activation = pg::relu}), pg::dense(10));
//     pg::experiment job{.network = net, .loss = pg::losses::cross_entropy, .optimizer = pg::adamw({.lr = 1e-3})};
//     job.data = {.train = pg::arrays({pg::field("x", pixels, {1, 28, 28}), pg::labels("y", digits, 10)}), .batch = 32};
//     pg::trainer trainer(job);
//     trainer.run([](const pg::report& at) { std::printf("%ld %f\n", long(at.step), at.loss); });
//
// Every layer of the library is a function pg::<name>, with a struct of its options; perigee_rules.hpp lists them. Failures throw
// pg::error. Objects are movable handles; those of different threads need no locks, and sharing one between threads is safe.
// Define PERIGEE_NO_PG before including to keep the short namespace name `pg` for yourself.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <type_traits>

#include "perigee_context.hpp"
#include "perigee_differentiate.hpp"
#include "perigee_prediction.hpp"
#include "perigee_rules.hpp"
#include "perigee_session.hpp"
#include "perigee_source.hpp"
#include "perigee_tensor.hpp"
#include "perigee_trace.hpp"
#include "perigee_value.hpp"

namespace perigee::api {

inline std::string version() { return perigee_version(); }

using report = perigee_report;

namespace detail {

// The numbers that `fill` writes into `bytes` bytes of float or double.
template <class Fill>
std::vector<float> as_floats(perigee_dtype dtype, size_t bytes, Fill fill) {
  if (dtype == PERIGEE_F64) {
    std::vector<double> numbers(bytes / sizeof(double));
    fill(std::as_writable_bytes(std::span(numbers)));
    return {numbers.begin(), numbers.end()};
  }
  std::vector<float> numbers(bytes / sizeof(float));
  fill(std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

}  // namespace detail

// An op of one's own, see perigee.h. The functions are called by several threads at once; forward and backward must not throw.
struct op_definition {
  using arrays = std::span<const perigee_array>;
  using numbers = std::span<const double>;
  std::string name = {};
  int operands = 1;
  uint32_t shared = 0;                                                                      // bit i: operand i is the same for all examples
  std::vector<std::pair<std::string, double>> options = {};                                 // and what they are otherwise
  std::function<void(arrays operands, numbers options, perigee_array& output)> infer = {};  // may throw; empty: like operand 0
  std::function<void(arrays operands, numbers options, const perigee_array& output)> forward = {};
  std::function<void(arrays operands, numbers options, const perigee_array& output, const perigee_array& output_gradient, arrays gradients)>
      backward = {};
};

namespace detail {

inline op_definition::arrays operands_of(void* user, const perigee_array* operands) {
  return {operands, static_cast<size_t>(static_cast<op_definition*>(user)->operands)};
}
inline op_definition::numbers options_of(void* user, const double* options) {
  return {options, static_cast<op_definition*>(user)->options.size()};
}
inline int infer_op(void* user, const perigee_array* operands, const double* options, perigee_array* output, char* message,
                    size_t message_bytes) noexcept {
  try {
    static_cast<op_definition*>(user)->infer(operands_of(user, operands), options_of(user, options), *output);
    return 0;
  } catch (const std::exception& failure) {
    std::strncpy(message, failure.what(), message_bytes - 1);
    return 1;
  }
}

}  // namespace detail

// Call it before perigee_worker_main, once.
inline void register_op(op_definition given) {
  static std::deque<op_definition> kept;  // as long as the process lives
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  op_definition& own = kept.emplace_back(std::move(given));
  std::vector<const char*> names;
  std::vector<double> defaults;
  for (const auto& [name, fallback] : own.options) {
    names.push_back(name.c_str());
    defaults.push_back(fallback);
  }
  perigee_op_definition c{};
  c.size = sizeof c;
  c.name = own.name.c_str();
  c.operands = own.operands;
  c.shared = own.shared;
  c.options = names.data();
  c.defaults = defaults.data();
  c.option_count = static_cast<int32_t>(names.size());
  c.user = &own;
  if (own.infer) c.infer = detail::infer_op;
  if (own.forward)
    c.forward = [](void* user, const perigee_array* operands, const double* options, const perigee_array* output) noexcept {
      static_cast<op_definition*>(user)->forward(detail::operands_of(user, operands), detail::options_of(user, options), *output);
    };
  if (own.backward)
    c.backward = [](void* user, const perigee_array* operands, const double* options, const perigee_array* output,
                    const perigee_array* output_gradient, const perigee_array* gradients) noexcept {
      static_cast<op_definition*>(user)->backward(detail::operands_of(user, operands), detail::options_of(user, options), *output,
                                                  *output_gradient, detail::operands_of(user, gradients));
    };
  const context in;
  in.check(perigee_register_op(in.get(), &c));
}

// The data sets that come in two parts: auto mnist = pg::data::mnist(); then mnist.train, mnist.test.
namespace data {
struct parts {
  source train, test;
};
inline parts two_parts(const char* type, const options& more) {
  options train = make(type, more), test = make(type, more);
  train.set("part", "train");
  test.set("part", "test");
  return {train, test};
}
inline parts mnist(const options& more = {}) { return two_parts("mnist", more); }
inline parts cifar10(const options& more = {}) { return two_parts("cifar10", more); }
inline parts digits(const options& more = {}) { return two_parts("digits", more); }
}  // namespace data

// --- Jobs -------------------------------------------------------------------------------------------------------------------------

struct train_options {
  int threads = 0;          // 0: the context's
  std::string folder = {};  // empty: nothing is written
  std::string resume = {};  // a run folder or checkpoint to continue from
  // With several processes, see perigee.h.
  int workers = 0;
  std::string agents = {}, listen = {}, secret = {};
  int min_workers = 0;
};

class job {
 public:
  job(const experiment& given, const context& in = context()) : context_(in) {  // an experiment is a job
    const value text = options_of(given);
    *this = parse(text.text(), PERIGEE_JSON, "experiment", in);
    for (const auto& [name, part] : parts_of(given.data))
      if (part->make()) bind(part->host_name().empty() ? name : part->host_name(), *part);
  }
  static job parse(const std::string& text, perigee_format format = PERIGEE_JSON, const std::string& name = "job",
                   const context& in = context()) {
    job made(in);
    perigee_job* handle = nullptr;
    in.check(perigee_job_parse(in.get(), text.data(), text.size(), format, name.c_str(), nullptr, &handle));
    made.handle_.reset(handle);
    return made;
  }
  // A .json, .yaml or .lua file.
  static job load(const std::string& path, const context& in = context()) {
    job made(in);
    perigee_job* handle = nullptr;
    in.check(perigee_job_load(in.get(), path.c_str(), &handle));
    made.handle_.reset(handle);
    return made;
  }

  // set("optimizer.lr", 0.1)
  void set(const std::string& path, const value& to) { check(perigee_job_set(get(), path.c_str(), to.text().c_str())); }
  // Sets the data that {"type": "host", "name": name} means in the job.
  void bind(const std::string& name, const source& data) {
    if (!data.make()) throw error(PERIGEE_USAGE, "only arrays and sources of the program are bound; name others in the job");
    const source::handle made = data.make()(context_);
    check(perigee_job_bind(get(), name.c_str(), made.get()));
  }
  // Sets the table that {"type": "table", "host": name} means in the job: one of another library of the program, by Arrow's C stream interface
  // (perigee_arrow.h). The stream is taken over.
  void bind_table(const std::string& name, ArrowArrayStream* stream) {
    perigee_source* made = nullptr;
    context_.check(perigee_source_from_arrow(context_.get(), name.c_str(), stream, &made));
    const source::handle owned(made);
    check(perigee_job_bind(get(), name.c_str(), made));
  }
  std::string json() const {
    char* text = nullptr;
    check(perigee_job_json(get(), &text));
    return detail::take_text(text);
  }
  // A whole run as `perigee train` does it. `event` is called with JSON text and may return false to stop; the end event comes back.
  std::string train(std::function<bool(const std::string&)> event = {}, const train_options& given = {}) const {
    struct state {
      std::function<bool(const std::string&)> event;
      std::exception_ptr thrown;
    } held{std::move(event), nullptr};
    perigee_train_options options{};
    options.size = sizeof options;
    options.threads = given.threads;
    options.folder = given.folder.empty() ? nullptr : given.folder.c_str();
    options.resume = given.resume.empty() ? nullptr : given.resume.c_str();
    options.workers = given.workers;
    options.agents = given.agents.empty() ? nullptr : given.agents.c_str();
    options.listen = given.listen.empty() ? nullptr : given.listen.c_str();
    options.secret = given.secret.empty() ? nullptr : given.secret.c_str();
    options.min_workers = given.min_workers;
    options.user = &held;
    if (held.event)
      options.event = [](void* user, const char* json) noexcept {
        auto& [event, thrown] = *static_cast<state*>(user);
        try {
          return event(json) ? 0 : 1;
        } catch (...) {
          thrown = std::current_exception();
          return 1;
        }
      };
    char* end = nullptr;
    const perigee_status status = perigee_job_train(get(), &options, &end);
    std::string text = detail::take_text(end);
    if (held.thrown) std::rethrow_exception(held.thrown);
    check(status);
    return text;
  }
  perigee_job* get() const { return handle_.get(); }
  void check(perigee_status status) const { detail::check(status, perigee_job_message(get())); }

 private:
  friend class trainer;
  explicit job(context in) : context_(std::move(in)) {}
  context context_;
  detail::handle<perigee_job, perigee_job_free> handle_;
};

// --- Models -----------------------------------------------------------------------------------------------------------------------

struct tensor_info {
  std::string name = {};
  std::vector<int64_t> shape = {};
  perigee_dtype dtype = PERIGEE_F32;
  size_t bytes = 0;
  bool trainable = false, state = false;
};

class model {
 public:
  static model load(const std::string& path, const context& in = context()) {
    perigee_model* made = nullptr;
    in.check(perigee_model_load(in.get(), path.c_str(), &made));
    return model(in, made);
  }
  static model load(std::span<const std::byte> bytes, const context& in = context()) {
    perigee_model* made = nullptr;
    in.check(perigee_model_load_memory(in.get(), bytes.data(), bytes.size(), &made));
    return model(in, made);
  }

  void save(const std::string& path) const { check(perigee_model_save(get(), path.c_str())); }
  std::vector<std::byte> save() const {
    void* bytes = nullptr;
    size_t count = 0;
    check(perigee_model_save_memory(get(), &bytes, &count));
    const detail::handle<void, perigee_free> owned(bytes);
    const auto* first = static_cast<const std::byte*>(bytes);
    return {first, first + count};
  }

  // Parameters first, then states.
  std::vector<tensor_info> tensors() const {
    std::vector<tensor_info> all;
    for (int32_t i = 0; i < perigee_model_tensor_count(get()); ++i) all.push_back(info(i, perigee_model_tensor));
    return all;
  }
  std::vector<tensor_info> inputs() const {
    std::vector<tensor_info> all;
    for (int32_t i = 0; i < perigee_model_input_count(get()); ++i) all.push_back(info(i, perigee_model_input));
    return all;
  }
  tensor_info output() const {
    return info(0, [](perigee_model* model, int32_t, perigee_tensor_info* into) { return perigee_model_output(model, into); });
  }

  // As floats, whatever the model's precision.
  std::vector<float> read(const std::string& name) const {
    for (const tensor_info& each : tensors())
      if (each.name == name && (each.dtype == PERIGEE_F32 || each.dtype == PERIGEE_F64))
        return detail::as_floats(each.dtype, each.bytes, [&](std::span<std::byte> into) { read(name, into); });
    read(name, {});
    return {};
  }
  void read(const std::string& name, std::span<std::byte> into) const {
    std::byte nothing{};
    check(perigee_model_read(get(), name.c_str(), into.empty() ? &nothing : into.data(), into.size()));
  }
  void write(const std::string& name, std::span<const float> numbers) {
    for (const tensor_info& each : tensors())
      if (each.name == name && each.dtype == PERIGEE_F64) {
        const std::vector<double> wide(numbers.begin(), numbers.end());
        return check(perigee_model_write(get(), name.c_str(), wide.data(), wide.size() * sizeof(double)));
      }
    const float nothing = 0;
    check(perigee_model_write(get(), name.c_str(), numbers.empty() ? &nothing : numbers.data(), numbers.size_bytes()));
  }

  // The model's answer to a file, to a file's content, to one row by the names of its columns: through the job's preprocessing, as
  // `perigee predict` does. All outputs, and those of `given.layers`.
  prediction predict_file(const std::string& path, const predict_options& given = {}) const {
    return predicted(given, [&](const perigee_predict_options& options, perigee_prediction** made) {
      return perigee_model_predict_file(get(), path.c_str(), &options, made);
    });
  }
  prediction predict_records(std::string_view content, const predict_options& given = {}) const {
    return predicted(given, [&](const perigee_predict_options& options, perigee_prediction** made) {
      return perigee_model_predict_records(get(), content.data(), content.size(), &options, made);
    });
  }
  // A table of another library, by Arrow's C stream interface (perigee_arrow.h); it is taken over.
  prediction predict_arrow(ArrowArrayStream* rows, const predict_options& given = {}) const {
    return predicted(given, [&](const perigee_predict_options& options, perigee_prediction** made) {
      return perigee_model_predict_arrow(get(), rows, &options, made);
    });
  }
  // And the prediction as a table, which the caller releases: perigee_prediction_arrow says what is in it.
  void predict_arrow(ArrowArrayStream* rows, ArrowArrayStream* out, const predict_options& given = {}) const {
    const auto made = made_by(given, [&](const perigee_predict_options& options, perigee_prediction** prediction) {
      return perigee_model_predict_arrow(get(), rows, &options, prediction);
    });
    detail::check(perigee_prediction_arrow(made.get(), out), perigee_prediction_message(made.get()));
  }
  prediction predict_record(const options& columns, predict_options given = {}) const {
    given.format = PERIGEE_RECORDS_JSON;
    return predict_records(value(columns).text(), given);
  }

  // Raw: nothing of the job's preprocessing is applied. The main output of examples that lie one after the other, as probabilities where the
  // loss is a classification's.
  std::vector<float> predict(std::span<const float> x) const {
    size_t per_example = 1;
    const std::vector<tensor_info> wanted = inputs();
    if (wanted.size() != 1 || wanted[0].dtype != PERIGEE_F32)
      throw error(PERIGEE_USAGE, "the model does not have one input of floats; give pointers to its inputs");
    for (const int64_t dim : wanted[0].shape) per_example *= static_cast<size_t>(dim);
    if (x.size() % per_example != 0)
      throw error(PERIGEE_USAGE, "the input does not hold whole examples of " + std::to_string(per_example) + " numbers");
    return predict(std::vector<const void*>{x.data()}, static_cast<int64_t>(x.size() / per_example));
  }
  std::vector<float> predict(const std::vector<const void*>& fields, int64_t examples) const {
    const tensor_info each = output();
    return detail::as_floats(each.dtype, each.bytes * static_cast<size_t>(examples), [&](std::span<std::byte> into) {
      check(perigee_model_predict(get(), fields.data(), static_cast<int32_t>(fields.size()), examples, into.data(), into.size()));
    });
  }
  perigee_model* get() const { return handle_.get(); }
  void check(perigee_status status) const { detail::check(status, perigee_model_message(get())); }

 private:
  friend class trainer;
  model(context in, perigee_model* made) : context_(std::move(in)), handle_(made) {}
  template <class Predict>
  detail::handle<perigee_prediction, perigee_prediction_free> made_by(const predict_options& given, Predict predict) const {
    std::vector<const char*> layers;
    for (const std::string& layer : given.layers) layers.push_back(layer.c_str());
    perigee_predict_options options{};
    options.size = sizeof options;
    options.layers = layers.data();
    options.layer_count = static_cast<int32_t>(layers.size());
    options.format = given.format;
    options.name = given.name.empty() ? nullptr : given.name.c_str();
    options.beams = given.beams;
    perigee_prediction* made = nullptr;
    check(predict(options, &made));
    return detail::handle<perigee_prediction, perigee_prediction_free>(made);
  }
  template <class Predict>
  prediction predicted(const predict_options& given, Predict predict) const {
    return prediction(made_by(given, predict).release());
  }
  template <class Get>
  tensor_info info(int32_t index, Get get_info) const {
    perigee_tensor_info found{};
    found.size = sizeof found;
    check(get_info(get(), index, &found));
    return {.name = found.name,
            .shape = {found.shape, found.shape + found.rank},
            .dtype = found.dtype,
            .bytes = found.bytes,
            .trainable = found.trainable != 0,
            .state = found.state != 0};
  }
  context context_;
  detail::handle<perigee_model, perigee_model_free> handle_;
};

struct predictor_options {
  int threads = 1;                         // batches that are computed at once
  int max_batch = 32;                      // examples in one
  int max_queue = 1024;                    // examples that may wait
  std::chrono::microseconds fill_wait{0};  // how long a batch that is not full waits for more
};

struct request_options {
  std::chrono::microseconds timeout{0};  // until it must have been begun; 0: any time
  uint64_t tag = 0;                      // for cancel
};

struct answer {
  uint64_t model = 0;  // which one answered: 1, and one more after each swap
  int64_t batch = 0;   // examples that were computed together
};

// Answers requests of many threads at once, raw as model::predict does, see perigee.h. What cannot be answered throws pg::error of status
// PERIGEE_BUSY, PERIGEE_TIMEOUT or PERIGEE_STOPPED.
class predictor {
 public:
  explicit predictor(const model& of, const predictor_options& given = {}) : row_(of.output().bytes) {
    perigee_predictor_options options{};
    options.size = sizeof options;
    options.threads = given.threads;
    options.max_batch = given.max_batch;
    options.max_queue = given.max_queue;
    options.fill_wait_us = static_cast<int32_t>(given.fill_wait.count());
    perigee_predictor* made = nullptr;
    of.check(perigee_predictor_create(of.get(), &options, &made));
    handle_.reset(made);
    for (const tensor_info& each : of.inputs()) input_rows_.push_back(each.bytes);
  }

  // `x` and `out` hold whole examples, in the types of the model's only input and its output; allocates nothing.
  template <class In, class Out>
  answer predict(std::span<const In> x, std::span<Out> out, const request_options& given = {}) const {
    if (input_rows_.size() != 1 || x.size_bytes() % input_rows_[0] != 0)
      throw error(PERIGEE_USAGE, "the input does not hold whole examples of the model's only input");
    const void* const inputs[] = {x.data()};
    return predict(inputs, static_cast<int64_t>(x.size_bytes() / input_rows_[0]), std::as_writable_bytes(out), given);
  }
  answer predict(std::span<const void* const> inputs, int64_t examples, std::span<std::byte> out, const request_options& given = {}) const {
    perigee_request request{};
    request.size = sizeof request;
    request.timeout_us = given.timeout.count();
    request.tag = given.tag;
    const perigee_status status =
        perigee_predictor_predict(get(), inputs.data(), static_cast<int32_t>(inputs.size()), examples, out.data(), out.size(), &request);
    if (status != PERIGEE_OK) throw error(status, request.message);
    return {request.model, request.batch};
  }
  std::vector<float> predict(std::span<const float> x, const request_options& given = {}) const {
    std::vector<float> out(x.size_bytes() / std::max<size_t>(1, input_rows_.at(0)) * row_ / sizeof(float));
    predict(x, std::span(out), given);
    return out;
  }

  uint64_t swap(const model& next) {
    uint64_t number = 0;
    const perigee_status status = perigee_predictor_swap(get(), next.get(), &number);
    detail::check(status, perigee_predictor_message(get()));
    return number;
  }
  int64_t cancel(uint64_t tag) { return perigee_predictor_cancel(get(), tag); }
  perigee_predictor* get() const { return handle_.get(); }

 private:
  detail::handle<perigee_predictor, perigee_predictor_free> handle_;
  std::vector<size_t> input_rows_;  // bytes of an example
  size_t row_;
};

inline session::session(const model& of, int64_t rows) {
  perigee_session* made = nullptr;
  of.check(perigee_session_open(of.get(), rows, &made));
  handle_.reset(made);
  const auto step_of = [rows](const tensor_info& all) {
    return all.bytes / static_cast<size_t>(all.shape.back()) * static_cast<size_t>(rows);
  };
  const auto remembered = [this](const std::string& name) {
    for (size_t i = 0; i < perigee_session_memory_count(get()); ++i)
      if (name == perigee_session_memory_name(get(), i)) return true;
    return false;
  };
  for (const tensor_info& input : of.inputs())
    if (!remembered(input.name)) in_ = step_of(input);
  out_ = step_of(of.output());
}

// --- Training ---------------------------------------------------------------------------------------------------------------------

struct evaluation {
  double loss = 0, accuracy = -1;
  std::string json;  // all figures
};

struct trainer_options {
  int threads = 0;               // 0: the context's
  std::string checkpoints = {};  // folder; empty: none are written
};

class trainer {
 public:
  explicit trainer(const job& of, const trainer_options& given = {}) : context_(of.context_) {
    perigee_trainer_options options{};
    options.size = sizeof options;
    options.threads = given.threads;
    options.checkpoints = given.checkpoints.empty() ? nullptr : given.checkpoints.c_str();
    perigee_trainer* made = nullptr;
    of.check(perigee_trainer_create(of.get(), &options, &made));
    handle_.reset(made);
  }

  report step() {
    report at = blank();
    check(perigee_trainer_step(get(), &at));
    return at;
  }
  // One step on examples of the caller's, which are read in place: one pointer per field of the training source.
  report feed(const std::vector<const void*>& fields, int64_t examples) {
    report at = blank();
    check(perigee_trainer_feed(get(), fields.data(), static_cast<int32_t>(fields.size()), examples, &at));
    return at;
  }
  // To the job's end, or for `max_steps`. `progress(const report&)` is called between steps; it may return false to stop, and what it throws
  // ends the run and comes out here. True when the job is finished.
  template <std::invocable<const report&> Progress>
  bool run(Progress&& progress, int64_t max_steps = 0, int64_t every_steps = 1) {
    using Callback = std::remove_reference_t<Progress>;
    std::pair<Callback*, std::exception_ptr> state(&progress, nullptr);
    perigee_run_options options{};
    options.size = sizeof options;
    options.max_steps = max_steps;
    options.every_steps = every_steps;
    options.user = &state;
    options.progress = [](void* user, const perigee_report* at) noexcept {
      auto& [callback, thrown] = *static_cast<decltype(state)*>(user);
      try {
        if constexpr (std::is_void_v<decltype((*callback)(*at))>) {
          (*callback)(*at);
          return 0;
        } else {
          return (*callback)(*at) ? 0 : 1;
        }
      } catch (...) {
        thrown = std::current_exception();
        return 1;
      }
    };
    const perigee_status status = perigee_trainer_run(get(), &options);
    if (state.second) std::rethrow_exception(state.second);
    check(status);
    return status == PERIGEE_OK;
  }
  bool run(int64_t max_steps = 0) {
    perigee_run_options options{};
    options.size = sizeof options;
    options.max_steps = max_steps;
    const perigee_status status = perigee_trainer_run(get(), &options);
    check(status);
    return status == PERIGEE_OK;
  }
  void stop() { perigee_trainer_stop(get()); }
  bool finished() const { return perigee_trainer_finished(get()) != 0; }

  evaluation evaluate(const std::string& part = "test") {
    evaluation result;
    char* text = nullptr;
    check(perigee_trainer_evaluate(get(), part.c_str(), &result.loss, &result.accuracy, &text));
    result.json = detail::take_text(text);
    return result;
  }
  api::model model() const {
    perigee_model* made = nullptr;
    check(perigee_trainer_model(get(), &made));
    return api::model(context_, made);
  }
  std::vector<float> predict(std::span<const float> x) const { return model().predict(x); }
  void save(const std::string& path) const { model().save(path); }
  std::vector<std::byte> save() const { return model().save(); }

  void save_checkpoint(const std::string& path) { check(perigee_trainer_save_checkpoint(get(), path.c_str())); }
  void load_checkpoint(const std::string& path) { check(perigee_trainer_load_checkpoint(get(), path.c_str())); }
  // From the newest whole checkpoint of trainer_options; false when there is none.
  bool resume() {
    int32_t resumed = 0;
    check(perigee_trainer_resume(get(), &resumed));
    return resumed != 0;
  }
  perigee_trainer* get() const { return handle_.get(); }
  void check(perigee_status status) const { detail::check(status, perigee_trainer_message(get())); }

 private:
  static report blank() {
    report at{};
    at.size = sizeof at;
    return at;
  }
  context context_;
  detail::handle<perigee_trainer, perigee_trainer_free> handle_;
};

}  // namespace perigee::api

#ifndef PERIGEE_NO_PG
namespace pg = perigee::api;
#endif
