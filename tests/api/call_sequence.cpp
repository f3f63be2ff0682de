#include "tests/api/call_sequence.h"

#include <algorithm>

namespace {

constexpr int64_t kExamples = 30;
constexpr size_t kRoom = 512;          // bytes given for outputs ...
constexpr unsigned char kCanary = 83;  // ... and what comes after

const char* const kJobs[] = {
    R"({"network":{"type":"sequential","layers":[{"type":"dense","out":4,"activation":"tanh"},{"type":"dense","out":2}]},"loss":"cross_entropy","optimizer":{"type":"sgd","lr":0.1},"data":{"batch":5},"epochs":1,"seed":1})",
    R"({"network":{"type":"sequential","layers":[{"type":"batchnorm"},{"type":"dense","out":2}]},"loss":"mse","optimizer":{"type":"adam"},"target":"z","data":{"batch":7},"steps":3})",
    R"({"network":{"type":"sequential","layers":[{"type":"dense","out":2}]},"loss":"cross_entropy","optimizer":{"type":"sgd","lr":0.1},"data":{"train":{"type":"host","name":"other"}},"epochs":1})",
    "network: {type: sequential, layers: [{type: dense, out: 2}]}\nloss: cross_entropy\noptimizer: {type: adam}\nepochs: 1\n",
    "local pg = require 'perigee' return pg.experiment { network = pg.sequential { pg.dense { 2 } }, loss = 'cross_entropy', optimizer = "
    "pg.adam {}, epochs = 1 }",
    "{}",
    "[",
    ""};
const char* const kPaths[] = {"optimizer.lr", "network.layers.1.out", "epochs", "data.batch", "seed", "nothing.here", "", "data.train"};
const char* const kValues[] = {"1", "0", "-1", "\"x\"", "0.5", "{}", "null", "[1,2", ""};
const char* const kDevices[] = {nullptr, "cpu", "auto", "cuda", "cuda:7", "cuda:0-", "ref", ""};  // most machines that fuzz have no GPU
const char* const kNames[] = {"train", "test", "other", "dense1.weight", "dense2.bias", "x", ""};

// The message of a failed call on the handle; null for a null handle, which has no message.
const char* of(const perigee_context* h) { return h ? perigee_context_message(h) : nullptr; }
const char* of(const perigee_job* h) { return h ? perigee_job_message(h) : nullptr; }
const char* of(const perigee_trainer* h) { return h ? perigee_trainer_message(h) : nullptr; }
const char* of(const perigee_model* h) { return h ? perigee_model_message(h) : nullptr; }
const char* of(const perigee_predictor* h) { return h ? perigee_predictor_message(h) : nullptr; }

}  // namespace

CallSequence::CallSequence(std::span<const uint8_t> bytes) : bytes_(bytes) {
  for (int64_t i = 0; i < kExamples; ++i) {
    x_.insert(x_.end(), {static_cast<float>(i % 5) - 2, static_cast<float>(i % 7) - 3});
    y_.push_back(i % 2);
  }
}

CallSequence::~CallSequence() {
  bytes_ = {};
  while (free_any(&functions_, perigee_function_free)) {}
  while (free_any(&traces_, perigee_trace_free)) {}
  while (free_any(&tensors_, perigee_tensor_free)) {}
  while (free_any(&predictors_, perigee_predictor_free)) {}
  while (free_any(&models_, perigee_model_free)) {}
  while (free_any(&trainers_, perigee_trainer_free)) {}
  while (free_any(&jobs_, perigee_job_free)) {}
  while (free_any(&sources_, perigee_source_free)) {}
  while (free_any(&contexts_, perigee_context_free)) {}
}

void CallSequence::begin() {
  make_context();
  for (int i = 0; i < 3; ++i) {
    parse();
    make_source();
    bind();
    open();
    make_tensor();
  }
  take_model();
  serve();
  begin_trace();
}

void CallSequence::play(int most) {
  for (int i = 0; i < most && !bytes_.empty(); ++i) {
    const std::span<const Call> chosen = below(2) ? calls() : tensor_calls();
    (this->*chosen[below(chosen.size())])();
  }
  if (released_ > borrowed_) throw BrokenCall("memory is released once");
  if (!tensors_.empty() || !functions_.empty() || !traces_.empty()) return;
  require(released_ == borrowed_, "memory is released when nothing looks at it any more");
}

uint8_t CallSequence::byte() {
  if (bytes_.empty()) return 0;
  const uint8_t first = bytes_.front();
  bytes_ = bytes_.subspan(1);
  return first;
}

size_t CallSequence::below(size_t n) {
  const size_t low = byte(), high = n <= 256 ? 0 : byte();
  return (high << 8 | low) % n;
}

void CallSequence::require(bool fine, const char* what, const char* message) {
  if (!fine) throw BrokenCall(std::string(what) + ": " + message);
}

void CallSequence::check(perigee_status status, const char* message) {
  require(status >= PERIGEE_OK && status <= PERIGEE_TIMEOUT, "a status of the header");
  require(status != PERIGEE_INTERNAL, "no defect of the library", message ? message : "");
  (status == PERIGEE_OK ? succeeded : failed)++;
  require(status == PERIGEE_OK || status == PERIGEE_STOPPED || !message || *message, "a failure has a message");
}

std::span<const CallSequence::Call> CallSequence::calls() {
  using C = CallSequence;
  static constexpr Call kCalls[] = {&C::make_context,
                                    &C::parse,
                                    &C::parse,
                                    &C::change,
                                    &C::make_source,
                                    &C::bind,
                                    &C::bind,
                                    &C::bind,
                                    &C::open,
                                    &C::open,
                                    &C::train,
                                    &C::train,
                                    &C::feed,
                                    &C::ask,
                                    &C::take_model,
                                    &C::copy_model,
                                    &C::tensors_of_model,
                                    &C::predict,
                                    &C::serve,
                                    &C::request,
                                    &C::request,
                                    &C::swap_model,
                                    &C::train_all,
                                    &C::free_one};
  return kCalls;
}

void CallSequence::make_context() {
  auto options = sized<perigee_context_options>();
  options.threads = static_cast<int32_t>(below(3)) - (rarely() ? 5 : 0);
  if (rarely()) options.device = one_of(kDevices);
  perigee_context* made = nullptr;
  const perigee_status status = perigee_context_create(rarely() ? nullptr : &options, &made);
  keep(status, nullptr, made, &contexts_);
}

void CallSequence::parse() {
  perigee_context* context = any(contexts_);
  const size_t which = below(2 * std::size(kJobs));
  const std::string text = kJobs[which < std::size(kJobs) ? which : 0];
  const perigee_format format = which == 3 ? PERIGEE_YAML : which == 4 ? PERIGEE_LUA : static_cast<perigee_format>(rarely() ? 3 : 0);
  perigee_job* made = nullptr;
  const perigee_status status = perigee_job_parse(context, text.data(), rarely() ? text.size() / 2 : text.size(), format,
                                                  rarely() ? nullptr : "text", nullptr, &made);
  keep(status, of(context), made, &jobs_);
}

void CallSequence::change() {
  perigee_job* job = any(jobs_);
  perigee_status status = perigee_job_set(job, rarely() ? nullptr : one_of(kPaths), one_of(kValues));
  check(status, of(job));
  char* text = nullptr;
  status = perigee_job_json(job, &text);
  check(status, of(job));
  perigee_free(text);
}

void CallSequence::make_source() {
  perigee_context* context = any(contexts_);
  perigee_field fields[2] = {};
  fields[0].size = fields[1].size = rarely() ? below(sizeof fields[0]) : sizeof fields[0];
  fields[0].name = rarely() ? nullptr : "x";
  fields[0].rank = rarely() ? static_cast<int32_t>(below(12)) - 2 : 1;
  fields[0].shape[0] = 2;
  fields[0].data = x_.data();
  fields[1].name = rarely() ? "x" : below(3) ? "y" : "z";
  fields[1].dtype = rarely() ? static_cast<perigee_dtype>(below(12)) : PERIGEE_I64;
  fields[1].classes = rarely() ? 1 : 2;
  fields[1].data = y_.data();
  fields[1].stored = PERIGEE_I64;
  perigee_source* made = nullptr;
  const int32_t count = rarely() ? static_cast<int32_t>(below(3)) : 2;
  const perigee_status status = below(3) == 0
                                    ? perigee_source_declare(context, fields, count, &made)
                                    : perigee_source_from_arrays(context, rarely() ? 0 : kExamples, fields, count, nullptr, nullptr, &made);
  keep(status, of(context), made, &sources_);
}

void CallSequence::bind() {
  perigee_job* job = any(jobs_);
  const perigee_status status = perigee_job_bind(job, rarely() ? one_of(kNames) : "train", any(sources_));
  check(status, of(job));
}

void CallSequence::open() {
  perigee_job* job = any(jobs_);
  auto options = sized<perigee_trainer_options>();
  options.threads = static_cast<int32_t>(below(3));
  perigee_trainer* made = nullptr;
  const perigee_status status = perigee_trainer_create(job, rarely() ? nullptr : &options, &made);
  keep(status, of(job), made, &trainers_);
}

void CallSequence::train() {
  perigee_trainer* trainer = any(trainers_);
  if (below(4) == 0) perigee_trainer_stop(trainer);
  auto options = sized<perigee_run_options>();
  options.max_steps = static_cast<int64_t>(below(4)) + (rarely() ? -2 : 1);
  auto report = sized<perigee_report>();
  const perigee_status status = below(2) ? perigee_trainer_run(trainer, &options) : perigee_trainer_step(trainer, &report);
  check(status, of(trainer));
}

void CallSequence::feed() {
  perigee_trainer* trainer = any(trainers_);
  const void* fields[2] = {x_.data(), rarely() ? nullptr : static_cast<const void*>(y_.data())};
  const int64_t examples = rarely() ? -1 : 1 + static_cast<int64_t>(below(kExamples));
  const perigee_status status = perigee_trainer_feed(trainer, fields, rarely() ? 1 : 2, examples, nullptr);
  check(status, of(trainer));
}

void CallSequence::ask() {
  perigee_trainer* trainer = any(trainers_);
  double loss = 0, accuracy = 0;
  char* json = nullptr;
  const perigee_status status = perigee_trainer_evaluate(trainer, one_of(kNames), &loss, &accuracy, below(2) ? &json : nullptr);
  check(status, of(trainer));
  perigee_free(json);
  perigee_trainer_finished(trainer);
}

void CallSequence::take_model() {
  perigee_trainer* trainer = any(trainers_);
  perigee_model* made = nullptr;
  const perigee_status status = perigee_trainer_model(trainer, &made);
  keep(status, of(trainer), made, &models_);
}

void CallSequence::copy_model() {
  perigee_model* model = any(models_);
  perigee_context* context = any(contexts_);
  void* bytes = nullptr;
  size_t count = 0;
  perigee_status status = perigee_model_save_memory(model, &bytes, &count);
  check(status, of(model));
  if (bytes && below(3) == 0) static_cast<unsigned char*>(bytes)[below(count)] ^= static_cast<unsigned char>(1 << below(8));
  perigee_model* made = nullptr;
  status = perigee_model_load_memory(context, bytes, rarely() ? below(count + 1) : count, &made);
  keep(status, of(context), made, &models_);
  perigee_free(bytes);
}

void CallSequence::tensors_of_model() {
  perigee_model* model = any(models_);
  auto info = sized<perigee_tensor_info>();
  const int32_t count = perigee_model_tensor_count(model);
  perigee_status status =
      perigee_model_tensor(model, static_cast<int32_t>(below(static_cast<size_t>(count) + 2)) - (rarely() ? 1 : 0), &info);
  check(status, of(model));
  unsigned char room[kRoom + 1];
  std::fill(std::begin(room), std::end(room), kCanary);
  const size_t bytes = rarely() ? below(kRoom) : 32;
  status = perigee_model_read(model, one_of(kNames), room, bytes);
  check(status, of(model));
  require(room[bytes] == kCanary, "nothing is written past the end");
  if (status != PERIGEE_OK) return;
  status = perigee_model_write(model, "dense1.weight", room, bytes);
  check(status, of(model));
}

void CallSequence::predict() {
  perigee_model* model = any(models_);
  const void* inputs[] = {rarely() ? nullptr : x_.data()};
  unsigned char room[kRoom + 1];
  std::fill(std::begin(room), std::end(room), kCanary);
  const size_t bytes = below(2) ? kRoom : below(kRoom);
  const perigee_status status =
      perigee_model_predict(model, inputs, rarely() ? 2 : 1, static_cast<int64_t>(below(kExamples)) - (rarely() ? 3 : 0), room, bytes);
  check(status, of(model));
  require(room[bytes] == kCanary, "nothing is written past the end");
  predict_records(model);
}

void CallSequence::predict_records(perigee_model* model) {
  static constexpr const char* kRecords[] = {
      R"({"x": [0.1, 0.2]})", R"([{"x": [1, 2]}, {"x": [3, 4]}])", R"([{"x": [1, 2]}, {"x": [3]}])", "0.1,0.2\n0.3,0.4\n", "x\n", "{",
      "\x89PNG\r\n"};
  const char* const text = one_of(kRecords);
  const char* const layers[] = {"dense1", "nothing"};
  auto options = sized<perigee_predict_options>();
  options.format = static_cast<int32_t>(below(3)) + (rarely() ? 5 : 0);
  options.layers = layers;
  options.layer_count = static_cast<int32_t>(below(2)) + (rarely() ? 1 : 0);
  perigee_prediction* made = nullptr;
  const perigee_status status = perigee_model_predict_records(model, text, std::strlen(text), rarely() ? nullptr : &options, &made);
  check(status, of(model));
  require((made != nullptr) == (status == PERIGEE_OK), "a prediction is made, or none");
  for (int32_t i = 0; i < perigee_prediction_output_count(made); ++i) {
    auto info = sized<perigee_prediction_output_info>();
    const perigee_status read = perigee_prediction_output(made, i, &info);
    require(read != PERIGEE_OK || info.size != sizeof info || info.data != nullptr, "an output has values");
  }
  const int32_t warnings = perigee_prediction_warning_count(made);
  for (int32_t i = -1; i <= warnings; ++i)
    require((perigee_prediction_warning(made, i) != nullptr) == (i >= 0 && i < warnings), "each warning has a text");
  perigee_prediction_free(made);
}

void CallSequence::serve() {
  perigee_model* model = any(models_);
  auto options = sized<perigee_predictor_options>();
  options.threads = static_cast<int32_t>(below(3));
  options.max_batch = static_cast<int32_t>(below(9)) - (rarely() ? 3 : 0);
  options.fill_wait_us = static_cast<int32_t>(below(30));
  perigee_predictor* made = nullptr;
  const perigee_status status = perigee_predictor_create(model, rarely() ? nullptr : &options, &made);
  keep(status, of(model), made, &predictors_);
}

void CallSequence::request() {
  perigee_predictor* predictor = any(predictors_);
  const void* inputs[] = {rarely() ? nullptr : x_.data()};
  unsigned char room[kRoom + 1];
  std::fill(std::begin(room), std::end(room), kCanary);
  const size_t bytes = below(2) ? kRoom : below(kRoom);
  auto request = sized<perigee_request>();
  request.timeout_us = static_cast<int64_t>(below(100)) - (rarely() ? 50 : 0);
  request.tag = below(3);
  const bool with = !rarely();
  const perigee_status status = perigee_predictor_predict(predictor, inputs, rarely() ? 2 : 1, static_cast<int64_t>(below(10)), room, bytes,
                                                          with ? &request : nullptr);
  const bool told = predictor && with && request.size == sizeof(perigee_request);
  check(status, told ? request.message : nullptr);
  require(room[bytes] == kCanary, "nothing is written past the end");
  perigee_predictor_cancel(predictor, below(3));
}

void CallSequence::swap_model() {
  perigee_predictor* predictor = any(predictors_);
  const perigee_status status = perigee_predictor_swap(predictor, any(models_), nullptr);
  check(status, of(predictor));
}

void CallSequence::train_all() {
  perigee_job* job = any(jobs_);
  if (job) check(perigee_job_set(job, "steps", "9"), of(job));  // "epochs" may say that there is no end
  auto options = sized<perigee_train_options>();
  options.workers = rarely() ? -1 : 0;
  options.event = [](void*, const char* json) { return json ? 0 : 1; };
  char* end = nullptr;
  const perigee_status status = perigee_job_train(job, rarely() ? nullptr : &options, &end);
  check(status, of(job));
  perigee_free(end);
}

void CallSequence::free_one() {
  switch (below(6)) {
    case 0: free_any(&contexts_, perigee_context_free); break;
    case 1: free_any(&jobs_, perigee_job_free); break;
    case 2: free_any(&sources_, perigee_source_free); break;
    case 3: free_any(&trainers_, perigee_trainer_free); break;
    case 4: free_any(&models_, perigee_model_free); break;
    default: free_any(&predictors_, perigee_predictor_free);
  }
}
