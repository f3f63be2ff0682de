// Random sequences of calls of the C ABI, right and wrong ones, with handles freed in any order: none crashes, each says what is wrong,
// none writes past the memory that it was given. Runs under the address and undefined-behaviour sanitizers in CI; PERIGEE_FUZZ_SECONDS
// tries new sequences for so long.
#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/api/support.h"

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
const char* const kPaths[] = {"optimizer.lr", "network.layers.0.out", "epochs", "data.batch", "seed", "nothing.here", "", "data.train"};
const char* const kValues[] = {"1", "0", "-1", "\"x\"", "0.5", "{}", "null", "[1,2", ""};
const char* const kNames[] = {"train", "test", "other", "dense1.weight", "dense2.bias", "x", ""};

class Caller {
 public:
  explicit Caller(uint64_t seed) : random_(seed) {
    for (int64_t i = 0; i < kExamples; ++i) {
      x_.insert(x_.end(), {static_cast<float>(i % 5) - 2, static_cast<float>(i % 7) - 3});
      y_.push_back(i % 2);
    }
    make_context();
    for (int i = 0; i < 3; ++i) {
      parse();
      make_source();
      bind();
      open();
    }
    take_model();
    serve();
  }
  ~Caller() {
    while (!models_.empty() || !predictors_.empty() || !trainers_.empty() || !jobs_.empty() || !sources_.empty() || !contexts_.empty())
      free_one();
  }

  void call() {
    using Call = void (Caller::*)();
    static constexpr Call kCalls[] = {&Caller::make_context, &Caller::parse,   &Caller::parse,     &Caller::change,  &Caller::make_source,
                                      &Caller::bind,         &Caller::bind,    &Caller::bind,      &Caller::open,    &Caller::open,
                                      &Caller::train,        &Caller::train,   &Caller::feed,      &Caller::ask,     &Caller::take_model,
                                      &Caller::copy_model,   &Caller::tensors, &Caller::predict,   &Caller::serve,   &Caller::request,
                                      &Caller::request,      &Caller::swap,    &Caller::train_all, &Caller::free_one};
    (this->*kCalls[below(std::size(kCalls))])();
  }
  int64_t succeeded = 0, failed = 0;

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  bool rarely() { return below(24) == 0; }
  template <class T, size_t N>
  T one_of(T const (&list)[N]) {
    return list[below(N)];
  }
  // A handle of the kind, or null.
  template <class Handle>
  Handle* any(const std::vector<Handle*>& of) {
    return of.empty() || rarely() ? nullptr : of[below(of.size())];
  }
  void check(perigee_status status, const char* message) {
    ASSERT_GE(status, PERIGEE_OK);
    ASSERT_LE(status, PERIGEE_TIMEOUT);
    ASSERT_NE(status, PERIGEE_INTERNAL) << message;
    (status == PERIGEE_OK ? succeeded : failed)++;
    if (status != PERIGEE_OK && status != PERIGEE_STOPPED && message) {
      ASSERT_NE(*message, 0);
    }
  }
  template <class Handle>
  void keep(perigee_status status, const char* message, Handle* made, std::vector<Handle*>* to) {
    check(status, message);
    ASSERT_EQ(made != nullptr, status == PERIGEE_OK);
    if (made) to->push_back(made);
  }
  // As programs built against older and newer headers have it.
  template <class Struct>
  struct Sized : Struct {
    unsigned char more[sizeof(Struct)] = {};
  };
  template <class Struct>
  Sized<Struct> sized() {
    Sized<Struct> s{};
    s.size = rarely() ? below(2 * sizeof(Struct)) : sizeof(Struct);
    return s;
  }
  // What a failed call on the handle left; null for a null handle, which has no message.
  static const char* of(const perigee_context* h) { return h ? perigee_context_message(h) : nullptr; }
  static const char* of(const perigee_job* h) { return h ? perigee_job_message(h) : nullptr; }
  static const char* of(const perigee_trainer* h) { return h ? perigee_trainer_message(h) : nullptr; }
  static const char* of(const perigee_model* h) { return h ? perigee_model_message(h) : nullptr; }
  static const char* of(const perigee_predictor* h) { return h ? perigee_predictor_message(h) : nullptr; }

  void make_context() {
    auto options = sized<perigee_context_options>();
    options.threads = static_cast<int32_t>(below(3)) - (rarely() ? 5 : 0);
    perigee_context* made = nullptr;
    const perigee_status status = perigee_context_create(rarely() ? nullptr : &options, &made);
    keep(status, nullptr, made, &contexts_);
  }
  void parse() {
    perigee_context* context = any(contexts_);
    const size_t which = below(2 * std::size(kJobs));
    const std::string text = kJobs[which < std::size(kJobs) ? which : 0];
    const perigee_format format = which == 3 ? PERIGEE_YAML : which == 4 ? PERIGEE_LUA : static_cast<perigee_format>(rarely() ? 3 : 0);
    perigee_job* made = nullptr;
    const perigee_status status = perigee_job_parse(context, text.data(), rarely() ? text.size() / 2 : text.size(), format,
                                                    rarely() ? nullptr : "text", nullptr, &made);
    keep(status, of(context), made, &jobs_);
  }
  void change() {
    perigee_job* job = any(jobs_);
    perigee_status status = perigee_job_set(job, rarely() ? nullptr : one_of(kPaths), one_of(kValues));
    check(status, of(job));
    char* text = nullptr;
    status = perigee_job_json(job, &text);
    check(status, of(job));
    perigee_free(text);
  }
  void make_source() {
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
    const perigee_status status =
        below(3) == 0 ? perigee_source_declare(context, fields, count, &made)
                      : perigee_source_from_arrays(context, rarely() ? 0 : kExamples, fields, count, nullptr, nullptr, &made);
    keep(status, of(context), made, &sources_);
  }
  void bind() {
    perigee_job* job = any(jobs_);
    const perigee_status status = perigee_job_bind(job, rarely() ? one_of(kNames) : "train", any(sources_));
    check(status, of(job));
  }
  void open() {
    perigee_job* job = any(jobs_);
    auto options = sized<perigee_trainer_options>();
    options.threads = static_cast<int32_t>(below(3));
    perigee_trainer* made = nullptr;
    const perigee_status status = perigee_trainer_create(job, rarely() ? nullptr : &options, &made);
    keep(status, of(job), made, &trainers_);
  }
  void train() {
    perigee_trainer* trainer = any(trainers_);
    if (below(4) == 0) perigee_trainer_stop(trainer);
    auto options = sized<perigee_run_options>();
    options.max_steps = static_cast<int64_t>(below(4)) + (rarely() ? -2 : 1);
    auto report = sized<perigee_report>();
    const perigee_status status = below(2) ? perigee_trainer_run(trainer, &options) : perigee_trainer_step(trainer, &report);
    check(status, of(trainer));
  }
  void feed() {
    perigee_trainer* trainer = any(trainers_);
    const void* fields[2] = {x_.data(), rarely() ? nullptr : static_cast<const void*>(y_.data())};
    const int64_t examples = rarely() ? -1 : 1 + static_cast<int64_t>(below(kExamples));
    const perigee_status status = perigee_trainer_feed(trainer, fields, rarely() ? 1 : 2, examples, nullptr);
    check(status, of(trainer));
  }
  void ask() {
    perigee_trainer* trainer = any(trainers_);
    double loss = 0, accuracy = 0;
    char* json = nullptr;
    const perigee_status status = perigee_trainer_evaluate(trainer, one_of(kNames), &loss, &accuracy, below(2) ? &json : nullptr);
    check(status, of(trainer));
    perigee_free(json);
    perigee_trainer_finished(trainer);
  }
  void take_model() {
    perigee_trainer* trainer = any(trainers_);
    perigee_model* made = nullptr;
    const perigee_status status = perigee_trainer_model(trainer, &made);
    keep(status, of(trainer), made, &models_);
  }
  void copy_model() {
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
  void tensors() {
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
    ASSERT_EQ(room[bytes], kCanary);
    if (status == PERIGEE_OK) check(perigee_model_write(model, "dense1.weight", room, bytes), of(model));
  }
  void predict() {
    perigee_model* model = any(models_);
    const void* inputs[] = {rarely() ? nullptr : x_.data()};
    unsigned char room[kRoom + 1];
    std::fill(std::begin(room), std::end(room), kCanary);
    const size_t bytes = below(2) ? kRoom : below(kRoom);
    const perigee_status status =
        perigee_model_predict(model, inputs, rarely() ? 2 : 1, static_cast<int64_t>(below(kExamples)) - (rarely() ? 3 : 0), room, bytes);
    check(status, of(model));
    ASSERT_EQ(room[bytes], kCanary);
  }
  void serve() {
    perigee_model* model = any(models_);
    auto options = sized<perigee_predictor_options>();
    options.threads = static_cast<int32_t>(below(3));
    options.max_batch = static_cast<int32_t>(below(9)) - (rarely() ? 3 : 0);
    options.fill_wait_us = static_cast<int32_t>(below(30));
    perigee_predictor* made = nullptr;
    const perigee_status status = perigee_predictor_create(model, rarely() ? nullptr : &options, &made);
    keep(status, of(model), made, &predictors_);
  }
  void request() {
    perigee_predictor* predictor = any(predictors_);
    const void* inputs[] = {rarely() ? nullptr : x_.data()};
    unsigned char room[kRoom + 1];
    std::fill(std::begin(room), std::end(room), kCanary);
    const size_t bytes = below(2) ? kRoom : below(kRoom);
    auto request = sized<perigee_request>();
    request.timeout_us = static_cast<int64_t>(below(100)) - (rarely() ? 50 : 0);
    request.tag = below(3);
    const bool with = !rarely();
    const perigee_status status = perigee_predictor_predict(predictor, inputs, rarely() ? 2 : 1, static_cast<int64_t>(below(10)), room,
                                                            bytes, with ? &request : nullptr);
    const bool told = predictor && with && request.size == sizeof(perigee_request);
    check(status, told ? request.message : nullptr);
    ASSERT_EQ(room[bytes], kCanary);
    perigee_predictor_cancel(predictor, below(3));
  }
  void swap() {
    perigee_predictor* predictor = any(predictors_);
    const perigee_status status = perigee_predictor_swap(predictor, any(models_), nullptr);
    check(status, of(predictor));
  }
  void train_all() {
    perigee_job* job = any(jobs_);
    auto options = sized<perigee_train_options>();
    options.workers = rarely() ? -1 : 0;
    options.event = [](void*, const char* json) { return json ? 0 : 1; };
    char* end = nullptr;
    const perigee_status status = perigee_job_train(job, rarely() ? nullptr : &options, &end);
    check(status, of(job));
    perigee_free(end);
  }
  template <class Handle, class Free>
  bool free_any(std::vector<Handle*>* from, Free free) {
    if (from->empty()) return false;
    std::swap((*from)[below(from->size())], from->back());
    free(from->back());
    from->pop_back();
    return true;
  }
  void free_one() {
    switch (below(6)) {
      case 0: free_any(&contexts_, perigee_context_free); break;
      case 1: free_any(&jobs_, perigee_job_free); break;
      case 2: free_any(&sources_, perigee_source_free); break;
      case 3: free_any(&trainers_, perigee_trainer_free); break;
      case 4: free_any(&models_, perigee_model_free); break;
      default: free_any(&predictors_, perigee_predictor_free);
    }
  }

  std::mt19937_64 random_;
  std::vector<float> x_;
  std::vector<int64_t> y_;
  std::vector<perigee_context*> contexts_;
  std::vector<perigee_job*> jobs_;
  std::vector<perigee_source*> sources_;
  std::vector<perigee_trainer*> trainers_;
  std::vector<perigee_model*> models_;
  std::vector<perigee_predictor*> predictors_;
};

TEST(Sequences, OfCallsNeverCrashAndAlwaysExplain) {
  using Clock = std::chrono::steady_clock;
  const char* wanted = std::getenv("PERIGEE_FUZZ_SECONDS");
  const double seconds = wanted ? std::atof(wanted) : 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const uint64_t first = seconds > 0 ? std::random_device()() : 0;
  int64_t succeeded = 0, failed = 0;
  for (uint64_t seed = first; seed < first + 60 || Clock::now() < end; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Caller caller(seed);
    for (int i = 0; i < 120; ++i) caller.call();
    succeeded += caller.succeeded;
    failed += caller.failed;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(succeeded, failed / 2) << "most calls fail: the sequences reach little";
  std::printf("%lld calls succeeded, %lld failed\n", static_cast<long long>(succeeded), static_cast<long long>(failed));
}

}  // namespace
