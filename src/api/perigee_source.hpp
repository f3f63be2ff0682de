// Where a job's examples come from: descriptions, arrays and classes of the program. Include perigee.hpp instead of this.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "perigee_context.hpp"
#include "perigee_value.hpp"

namespace perigee::api {

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

}  // namespace perigee::api
