// Functions of one's own in C++: layers and outer steps of averaging policies. A function runs once, on values that record what is done
// to them; the record is JSON, so it crosses to worker processes and into model files as data. Include perigee.hpp instead of this.
#pragma once

#include <type_traits>

#include "perigee_value.hpp"

namespace perigee::api {

namespace detail {
struct record {
  std::vector<value> ops;
};
}  // namespace detail

// A value inside a traced function: arithmetic, pg::ops::..., pg::host_op. Numbers are traced values, too.
class traced {
 public:
  traced(double number) : text_(value(number)) {}  // 2 * x
  traced(std::shared_ptr<detail::record> record, const std::string& name) : record_(std::move(record)), text_(name) {}

  static traced apply(std::string_view op, const std::vector<traced>& in, const options& attrs = {}) {
    std::shared_ptr<detail::record> record;
    std::vector<value> operands;
    for (const traced& each : in) {
      if (record && each.record_ && each.record_ != record) throw error(PERIGEE_USAGE, "a traced value belongs to another function");
      if (each.record_) record = each.record_;
      operands.push_back(each.text_);
    }
    if (!record) throw error(PERIGEE_USAGE, "pg::ops::" + std::string(op) + ": at least one operand is a value of the traced function");
    const std::string name = "t" + std::to_string(record->ops.size() + 1);
    options step{{"op", op}, {"in", operands}, {"out", name}};
    if (!attrs.members().empty()) step.set("attrs", attrs);
    record->ops.push_back(step);
    return {std::move(record), name};
  }
  const value& name() const { return text_; }

 private:
  std::shared_ptr<detail::record> record_;  // null: a number
  value text_;
};

inline traced operator+(const traced& a, const traced& b) { return traced::apply("add", {a, b}); }
inline traced operator-(const traced& a, const traced& b) { return traced::apply("sub", {a, b}); }
inline traced operator*(const traced& a, const traced& b) { return traced::apply("mul", {a, b}); }
inline traced operator/(const traced& a, const traced& b) { return traced::apply("div", {a, b}); }
inline traced operator-(const traced& a) { return traced::apply("neg", {a}); }

// An op of the program's own: pg::host_op("mine.swish", {x}, {{"beta", 1.5}}).
inline traced host_op(std::string_view name, const std::vector<traced>& in, const options& more = {}) {
  options attrs{{"name", name}};
  for (const auto& [key, v] : more.members()) attrs.set(key, v);
  return traced::apply("host", in, attrs);
}

// The trained tensors of a layer of one's own.
class parameters {
 public:
  explicit parameters(std::shared_ptr<detail::record> record) : record_(std::move(record)) {}
  traced weight(const std::string& name, const std::vector<value>& shape, const value& init = "xavier") {
    return add(name, shape, init, "weight");
  }
  traced bias(const std::string& name, const std::vector<value>& shape, const value& init = "zeros") {
    return add(name, shape, init, "bias");
  }
  traced gain(const std::string& name, const std::vector<value>& shape, const value& init = "ones") {
    return add(name, shape, init, "gain");
  }
  const std::vector<value>& all() const { return all_; }

 private:
  traced add(const std::string& name, const std::vector<value>& shape, const value& init, const char* role) {
    all_.push_back(options{{"name", name}, {"shape", shape}, {"init", init}, {"role", role}});
    return {record_, name};
  }
  std::shared_ptr<detail::record> record_;
  std::vector<value> all_;
};

// A layer of one's own: pg::lambda([](pg::traced x) { return x * pg::ops::sigmoid(x); }); of two inputs, f(x, y); with parameters,
// f(pg::parameters& own, x).
template <class F>
requires(std::is_invocable_v<F, traced> || std::is_invocable_v<F, traced, traced> || std::is_invocable_v<F, parameters&, traced>) layer
    lambda(F f, const options& more = {}) {
  auto record = std::make_shared<detail::record>();
  parameters own(record);
  std::vector<value> inputs{"x1"};
  const traced x(record, "x1"), y(record, "x2");
  const auto call = [&] {
    if constexpr (std::is_invocable_v<F, parameters&, traced>) {
      return f(own, x);
    } else if constexpr (std::is_invocable_v<F, traced>) {
      return f(x);
    } else {
      inputs.emplace_back("x2");
      return f(x, y);
    }
  };
  const traced result = call();
  options all{{"type", "lambda"}, {"inputs", inputs}, {"program", record->ops}, {"outputs", std::vector<value>{result.name()}}};
  if (!own.all().empty()) all.set("parameters", own.all());
  for (const auto& [key, v] : more.members()) all.set(key, v);
  return layer(std::move(all), "lambda");
}

// The values that an outer step sees: "global", "mean", "delta" (or "gradient"), its states and knobs, "workers", "progress", "round", ...
class outer {
 public:
  explicit outer(std::shared_ptr<detail::record> record) : record_(std::move(record)) {}
  traced operator[](const std::string& name) const {
    for (const auto& [key, to] : set_)
      if (key == name) return to;
    return {record_, name};
  }
  void set(const std::string& state, const traced& to) { set_.emplace_back(state, to); }
  const std::vector<std::pair<std::string, traced>>& states() const { return set_; }

 private:
  std::shared_ptr<detail::record> record_;
  std::vector<std::pair<std::string, traced>> set_;
};

// An averaging policy of one's own: `more` are the policy's options and the knobs of its step, `state` its states with initial values, and
// `step` returns the new global parameters:
//
//     pg::custom_averaging({{"every", 16}, {"momentum", 0.9}}, {{"velocity", 0}}, [](pg::outer& p) {
//       p.set("velocity", p["momentum"] * p["velocity"] + p["delta"]);
//       return p["global"] - p["velocity"];
//     });
template <class F>
requires std::is_invocable_r_v<traced, F, outer&> options custom_averaging(const options& more, const options& state, F step) {
  auto record = std::make_shared<detail::record>();
  outer at(record);
  const traced result = step(at);
  const value* what = more.find("what");
  options outputs{{what && what->text() == "\"gradient\"" ? "gradient" : "global", result.name()}};
  for (const auto& [name, to] : at.states()) outputs.set(name, to.name());
  options all{{"type", "custom"}};
  for (const auto& [name, v] : more.members()) all.set(name, v);
  if (!state.members().empty()) all.set("state", state);
  all.set("outer", options{{"program", record->ops}, {"outputs", outputs}});
  return all;
}

}  // namespace perigee::api
