// A sequence that a recurrent or causal model reads in pieces. Include perigee.hpp instead of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perigee_handle.hpp"

namespace perigee::api {

class model;

// Each step goes on from where the one before ended; no more than its state beside what all sessions of a model share.
class session {
 public:
  // With the parameters that the model has now. `rows`: sequences side by side.
  explicit session(const model& of, int64_t rows = 1);

  // `x` is [rows, ..., steps], in the input's type, `y` likewise of the output; allocates nothing.
  template <class In, class Out>
  void step(std::span<const In> x, std::span<Out> y) {
    if (x.empty() || x.size_bytes() % in_ != 0) throw error(PERIGEE_USAGE, "the input does not hold whole steps of every row");
    check(perigee_session_step(get(), x.data(), static_cast<int64_t>(x.size_bytes() / in_), y.data(), y.size_bytes()));
  }
  // For a model whose output is f32.
  template <class In>
  std::vector<float> step(std::span<const In> x) {
    std::vector<float> y(x.size_bytes() / in_ * out_ / sizeof(float));
    step(x, std::span(y));
    return y;
  }

  // Gives a model with several inputs what its steps look at: [rows, ...] of the input of this name.
  template <class In>
  void remember(std::string_view name, std::span<const In> x) {
    for (size_t i = 0; i < perigee_session_memory_count(get()); ++i)
      if (name == perigee_session_memory_name(get(), i)) return check(perigee_session_remember(get(), i, x.data(), x.size_bytes()));
    throw error(PERIGEE_USAGE, "the model has no memory '" + std::string(name) + "'");
  }

  void clear() { check(perigee_session_clear(get())); }  // the next step is the first again
  std::vector<std::byte> state() const {
    std::vector<std::byte> bytes(perigee_session_state_bytes(get()));
    check(perigee_session_read_state(get(), bytes.data(), bytes.size()));
    return bytes;
  }
  void set_state(std::span<const std::byte> bytes) { check(perigee_session_write_state(get(), bytes.data(), bytes.size())); }
  perigee_session* get() const { return handle_.get(); }

 private:
  void check(perigee_status status) const { detail::check(status, perigee_session_message(get())); }

  detail::handle<perigee_session, perigee_session_free> handle_;
  size_t in_ = 1, out_ = 1;  // bytes of a step of all rows
};

}  // namespace perigee::api
