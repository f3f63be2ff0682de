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

#include "perigee_differentiate.hpp"
#include "perigee_prediction.hpp"
#include "perigee_rules.hpp"
#include "perigee_session.hpp"
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

// --- Contexts ---------------------------------------------------------------------------------------------------------------------

struct context_options {
  int threads = 0;                                   // 0: the job's, or one per core
  std::function<void(const std::string&)> log = {};  // warnings; without it they are dropped
  std::string device = {};  // for trainers and models: "cuda:0", "auto"; empty: the job's, for models from files the CPU
};

// Trainers and models that are made without one have one of their own.
class context {
 public:
  explicit context(context_options given = {}) : shared_(std::make_shared<content>()) {
    shared_->log = std::move(given.log);
    perigee_context_options options{};
    options.size = sizeof options;
    options.threads = given.threads;
    if (shared_->log) options.log = [](void* user, const char* text) { static_cast<content*>(user)->log(text); };
    options.log_user = shared_.get();
    if (!given.device.empty()) options.device = given.device.c_str();
    perigee_context* made = nullptr;
    detail::check(perigee_context_create(&options, &made), "threads must lie in 0 to 1024");
    shared_->handle.reset(made);
  }
  perigee_context* get() const { return shared_->handle.get(); }
  void check(perigee_status status) const { detail::check(status, perigee_context_message(get())); }

 private:
  struct content {
    std::function<void(const std::string&)> log;
    detail::handle<perigee_context, perigee_context_free> handle;
  };
  std::shared_ptr<content> shared_;
};

// --- Data -------------------------------------------------------------------------------------------------------------------------

// One array of each example; for pg::arrays also where all of them lie.
struct field_info {
  std::string name = {};
  std::vector<int64_t> shape = {};  // of one example; empty: a scalar
  perigee_dtype dtype = PERIGEE_F32;
  int64_t classes = 0;  // a label in [0, classes); 0: not a label
  const void* data = nullptr;
  perigee_dtype stored = {};
  int64_t elements = 0;  // at `data`
  float scale = 1;       // for uint8_t read as float
  perigee_role role = PERIGEE_NO_ROLE;
  std::string of = {};  // the field that it serves

  perigee_field c() const {
    perigee_field field{};
    field.size = sizeof field;
    field.name = name.c_str();
    field.dtype = dtype;
    field.rank = static_cast<int32_t>(shape.size());
    for (size_t i = 0; i < shape.size() && i < PERIGEE_MAX_RANK; ++i) field.shape[i] = shape[i];
    field.classes = classes;
    field.data = data;
    field.stored = stored;
    field.scale = scale;
    field.of = of.empty() ? nullptr : of.c_str();
    field.role = role;
    return field;
  }
};

// `numbers` (anything contiguous) holds example after example, row-major, and must outlive the training. Bytes are read as floats
// times `scale`.
template <class Range>
field_info field(std::string name, const Range& numbers, std::vector<int64_t> shape = {}, float scale = 1) {
  const auto* data = std::data(numbers);
  return {.name = std::move(name),
          .shape = std::move(shape),
          .data = data,
          .stored = detail::dtype_of<std::remove_pointer_t<decltype(data)>>(),
          .elements = static_cast<int64_t>(std::size(numbers)),
          .scale = scale};
}

template <class Range>
field_info labels(std::string name, const Range& numbers, int64_t classes) {
  field_info info = field(std::move(name), numbers);
  info.dtype = PERIGEE_I64;
  info.classes = classes;
  return info;
}

// How many steps of `of` are there: integers, one for each example.
template <class Range>
field_info length(std::string name, const Range& numbers, std::string of) {
  field_info info = field(std::move(name), numbers);
  info.dtype = PERIGEE_I64, info.role = PERIGEE_LENGTH, info.of = std::move(of);
  return info;
}
// 0 or 1 for each of `steps` steps of `of`.
template <class Range>
field_info mask(std::string name, const Range& numbers, int64_t steps, std::string of) {
  field_info info = field(std::move(name), numbers, {steps});
  info.role = PERIGEE_MASK, info.of = std::move(of);
  return info;
}
// How much each example counts, or with a shape each step of it; `of` empty: for all targets.
template <class Range>
field_info weight(std::string name, const Range& numbers, std::string of = {}, std::vector<int64_t> shape = {}) {
  field_info info = field(std::move(name), numbers, std::move(shape));
  info.role = PERIGEE_WEIGHT, info.of = std::move(of);
  return info;
}

// A field without its numbers: for data sources of one's own and for trainers that are fed.
inline field_info declare(std::string name, std::vector<int64_t> shape = {}) {
  return {.name = std::move(name), .shape = std::move(shape)};
}
inline field_info declare_labels(std::string name, int64_t classes) {
  return {.name = std::move(name), .dtype = PERIGEE_I64, .classes = classes};
}

// A data source of one's own. What read throws ends the step with a pg::error of status PERIGEE_DATA.
class data_source {
 public:
  virtual ~data_source() = default;
  virtual int64_t size() const = 0;
  virtual std::vector<field_info> fields() const = 0;
  // Writes each field of one example to slots[i]; by several threads at once. May block, as a stream does.
  virtual void read(const perigee_read_key& key, std::span<void* const> slots) const = 0;
  // A stream: nothing is read before the first step. Train it with shuffle = false.
  virtual bool live() const { return false; }
  virtual std::string describe() const { return "data of the program"; }
};

// Where a job's examples come from: a description, or memory and code of this program.
class source {
 public:
  using handle = detail::handle<perigee_source, perigee_source_free>;
  using maker = std::function<handle(const context&)>;

  source() = default;
  source(options description) : description_(std::move(description)) {}  // pg::sources::mnist({...})
  source(rule name) : description_(name()) {}                            // pg::sources::mnist
  explicit source(maker make) : make_(std::move(make)) {}

  bool given() const { return make_ || description_.given(); }
  const value& description() const { return description_; }
  const maker& make() const { return make_; }

  // source.map({pg::transforms::flip({...})}): changes examples as they are read.
  source map(std::vector<value> transforms, const std::string& host_name = "data") const {
    source mapped = *this;
    const value inner = make_ ? value(options{{"type", "host"}, {"name", host_name}}) : description_;
    mapped.description_ = options{{"type", "map"}, {"source", inner}, {"transforms", transforms}};
    mapped.host_name_ = make_ ? host_name : host_name_;
    return mapped;
  }
  // By which name the description calls this program's source; empty: it is the whole part.
  const std::string& host_name() const { return host_name_; }

 private:
  value description_;
  maker make_;
  std::string host_name_;
};

namespace detail {

inline std::vector<perigee_field> c_fields(const std::vector<field_info>& fields) {
  std::vector<perigee_field> all;
  for (const field_info& each : fields) all.push_back(each.c());
  return all;
}

using held_source = std::pair<std::shared_ptr<const data_source>, size_t>;  // and how many fields it has

inline int read_host(void* user, const perigee_read_key* key, void* const* slots, char* message, size_t message_bytes) {
  const auto& source = *static_cast<held_source*>(user);
  try {
    source.first->read(*key, {slots, source.second});
    return 0;
  } catch (const std::exception& failure) {
    std::strncpy(message, failure.what(), message_bytes - 1);
    return 1;
  }
}

}  // namespace detail

// Examples in this program's memory, read in place.
inline source arrays(std::vector<field_info> fields) {
  return source([fields = std::move(fields)](const context& in) {
    int64_t examples = -1;
    for (const field_info& each : fields) {
      int64_t per_example = 1;
      for (const int64_t dim : each.shape) per_example *= dim;
      if (per_example < 1 || each.elements % per_example != 0)
        throw error(PERIGEE_USAGE, "pg::arrays: field '" + each.name + "' does not hold whole examples");
      if (examples >= 0 && examples != each.elements / per_example)
        throw error(PERIGEE_USAGE, "pg::arrays: field '" + each.name + "' has another number of examples than the fields before it");
      examples = each.elements / per_example;
    }
    perigee_source* made = nullptr;
    const auto all = detail::c_fields(fields);
    in.check(perigee_source_from_arrays(in.get(), examples, all.data(), static_cast<int32_t>(all.size()), nullptr, nullptr, &made));
    return source::handle(made);
  });
}

inline source host(std::shared_ptr<const data_source> own) {
  return source([own = std::move(own)](const context& in) {
    const std::vector<field_info> fields = own->fields();
    const auto all = detail::c_fields(fields);
    const std::string description = own->describe();
    auto user = std::make_unique<detail::held_source>(own, fields.size());
    perigee_source_definition definition{};
    definition.size = sizeof definition;
    definition.description = description.c_str();
    definition.examples = own->size();
    definition.fields = all.data();
    definition.field_count = static_cast<int32_t>(all.size());
    definition.read = detail::read_host;
    definition.live = own->live();
    definition.release = [](void* held) { const std::unique_ptr<detail::held_source> owned(static_cast<detail::held_source*>(held)); };
    definition.user = user.get();
    perigee_source* made = nullptr;
    in.check(perigee_source_create(in.get(), &definition, &made));
    user.release();  // definition.release owns it now
    return source::handle(made);
  });
}

// Only what examples look like: the trainer is fed by trainer::feed.
inline source fed(std::vector<field_info> fields) {
  return source([fields = std::move(fields)](const context& in) {
    perigee_source* made = nullptr;
    const auto all = detail::c_fields(fields);
    in.check(perigee_source_declare(in.get(), all.data(), static_cast<int32_t>(all.size()), &made));
    return source::handle(made);
  });
}

// Makes what `open` returns the meaning of {"type": "host", "name": name}, in this process and in worker processes. Call it before
// perigee_worker_main.
inline void register_source(const std::string& name, std::function<source()> open) {
  static std::deque<std::function<source()>> kept;  // as long as the process lives
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(open));
  const context in;
  in.check(perigee_register_source(
      in.get(), name.c_str(),
      [](void* user, perigee_context*, perigee_source** out, char* message, size_t message_bytes) noexcept {
        try {
          const source made = (*static_cast<std::function<source()>*>(user))();
          if (!made.make()) throw error(PERIGEE_USAGE, "only arrays and sources of the program are registered; name others in the job");
          const context own;
          *out = made.make()(own).release();
          return PERIGEE_OK;
        } catch (const std::exception& failure) {
          std::strncpy(message, failure.what(), message_bytes - 1);
          return PERIGEE_DATA;
        }
      },
      &kept.back()));
}

// The program's source that was registered under this name.
inline source registered(const std::string& name) { return options{{"type", "host"}, {"name", name}}; }

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

struct data_options {
  source train = {}, test = {}, validation = {};
  value lengths = {}, masks = {};  // of fields, by fields: pg::options{{"x", "n"}}
  value weights = {};              // of examples or steps: a field, or pg::options{{"y", "w"}}
  value batch = {};                // examples per step, 32
  value shuffle = {};              // true
  value threads = {};              // that read ahead
  value at = {};      // where workers of a cluster get them from: "worker", each reads them itself, or "coordinator", which sends them
  value verify = {};  // what is compared between workers at the start: "sample" or "full"
  value shards = {};  // 1; more: each worker of a cluster keeps to its own of so many parts of the training data
  value global_batch = {};  // examples per step of all workers together
};

// The keys of a job; `perigee schema` says what each may hold.
struct experiment {
  value name = {};
  api::network network = {};
  value inputs = {}, target = {};
  value loss = {};
  value optimizer = {}, lr_scale = {};
  value regularization = {}, constraint = {}, clip = {};
  data_options data = {};
  value epochs = {}, accumulate = {}, steps = {}, seed = {}, threads = {}, precision = {}, loss_scale = {};
  value device = {}, devices = {}, deterministic = {}, recompute = {}, memory_limit = {};
  value averaging = {};
  value checkpoint = {}, early_stopping = {}, reduce_on_plateau = {}, report = {}, ema = {}, swa = {}, metrics = {}, pretrained = {};
};

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
    options data{{"lengths", given.data.lengths}, {"masks", given.data.masks},
                 {"weights", given.data.weights}, {"batch", given.data.batch},
                 {"shuffle", given.data.shuffle}, {"threads", given.data.threads},
                 {"at", given.data.at},           {"verify", given.data.verify},
                 {"shards", given.data.shards},   {"global_batch", given.data.global_batch}};
    const std::pair<const char*, const source*> parts[] = {
        {"train", &given.data.train}, {"test", &given.data.test}, {"validation", &given.data.validation}};
    for (const auto& [name, part] : parts) data.set(name, part->description());
    const value text = options{{"perigee", 1},
                               {"name", given.name},
                               {"network", given.network},
                               {"inputs", given.inputs},
                               {"target", given.target},
                               {"loss", given.loss},
                               {"optimizer", given.optimizer},
                               {"lr_scale", given.lr_scale},
                               {"regularization", given.regularization},
                               {"constraint", given.constraint},
                               {"clip", given.clip},
                               {"data", data},
                               {"epochs", given.epochs},
                               {"accumulate", given.accumulate},
                               {"steps", given.steps},
                               {"seed", given.seed},
                               {"threads", given.threads},
                               {"precision", given.precision},
                               {"loss_scale", given.loss_scale},
                               {"device", given.device},
                               {"devices", given.devices},
                               {"deterministic", given.deterministic},
                               {"recompute", given.recompute},
                               {"memory_limit", given.memory_limit},
                               {"averaging", given.averaging},
                               {"checkpoint", given.checkpoint},
                               {"early_stopping", given.early_stopping},
                               {"reduce_on_plateau", given.reduce_on_plateau},
                               {"report", given.report},
                               {"ema", given.ema},
                               {"swa", given.swa},
                               {"metrics", given.metrics},
                               {"pretrained", given.pretrained}};
    *this = parse(text.text(), PERIGEE_JSON, "experiment", in);
    for (const auto& [name, part] : parts)
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
  prediction predicted(const predict_options& given, Predict predict) const {
    std::vector<const char*> layers;
    for (const std::string& layer : given.layers) layers.push_back(layer.c_str());
    perigee_predict_options options{};
    options.size = sizeof options;
    options.layers = layers.data();
    options.layer_count = static_cast<int32_t>(layers.size());
    options.format = given.format;
    options.name = given.name.empty() ? nullptr : given.name.c_str();
    perigee_prediction* made = nullptr;
    check(predict(options, &made));
    return prediction(made);
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
  in_ = step_of(of.inputs().front());
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
