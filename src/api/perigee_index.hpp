// Arguments that index, shape and make tensors: dtypes, places, axes, nested lists. Include perigee.hpp instead of this.
#pragma once

#include <concepts>
#include <type_traits>

#include "perigee_value.hpp"

namespace perigee::api {

inline constexpr perigee_dtype f32 = PERIGEE_F32, f64 = PERIGEE_F64, f16 = PERIGEE_F16, bf16 = PERIGEE_BF16, i32 = PERIGEE_I32,
                               i64 = PERIGEE_I64, u8 = PERIGEE_U8, boolean = PERIGEE_BOOL;

inline const char* dtype_name(perigee_dtype dtype) {
  constexpr const char* kNames[] = {"none", "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"};
  return kNames[dtype >= PERIGEE_F32 && dtype <= PERIGEE_BOOL ? dtype : 0];
}

using sizes = std::vector<int64_t>;

// One entry of x[{...}]: a place, pg::slice(1, 3), pg::whole, pg::newaxis, pg::reversed.
struct index_entry : perigee_index {
  template <std::integral T>
  constexpr index_entry(T place) : perigee_index{PERIGEE_AT, static_cast<int64_t>(place), 0, 0} {}  // x[{1, 2}]
  constexpr index_entry(int32_t kind, int64_t start, int64_t stop, int64_t step) : perigee_index{kind, start, stop, step} {}
};
// From `start` to before `stop` (to the end when it is not given). With a negative step backwards, from `start` down to above `stop`.
constexpr index_entry slice(int64_t start, int64_t stop = PERIGEE_END, int64_t step = 1) { return {PERIGEE_RANGE, start, stop, step}; }
inline constexpr index_entry whole(PERIGEE_WHOLE, 0, 0, 0), newaxis(PERIGEE_NEW_AXIS, 0, 0, 0),
    reversed(PERIGEE_RANGE, PERIGEE_END, PERIGEE_END, -1);

// Which axes: none is all of them.
struct axes {
  axes() = default;
  axes(int64_t only) : list{only} {}                         // x.sum(0)
  axes(std::initializer_list<int64_t> some) : list(some) {}  // x.sum({0, 1})
  std::vector<int64_t> list;
};

// The options of convolution and pooling.
struct window_options {
  int64_t kernel = 0;  // of pooling
  int64_t stride = 0;  // 0: 1, and of pooling the kernel
  int64_t padding = 0, dilation = 1, groups = 1;
};

namespace detail {

// Nested lists of numbers.
struct nested {
  template <class T>
  requires std::is_arithmetic_v<T> nested(T only) : number(static_cast<double>(only)) {}
  nested(std::initializer_list<nested> entries) : list(entries), is_list(true) {}
  double number = 0;
  std::vector<nested> list;
  bool is_list = false;
};

// Each thread has a context of its own for tensors, so that messages do not mix and seeds belong to a thread.
inline perigee_context* tensor_context() {
  thread_local const handle<perigee_context, perigee_context_free> own = [] {
    perigee_context* made = nullptr;
    check(perigee_context_create(nullptr, &made), "no context");
    return handle<perigee_context, perigee_context_free>(made);
  }();
  return own.get();
}
inline void check_tensors(perigee_status status) {
  if (status != PERIGEE_OK) check(status, perigee_context_message(tensor_context()));
}

// A call's status, whose message its handle has: checked(status, handle, perigee_trace_message).
template <class Handle>
void checked(perigee_status status, const Handle* of, const char* (*message)(const Handle*)) {
  if (status != PERIGEE_OK) check(status, message(of));
}

inline value list(const std::vector<int64_t>& numbers) { return value(std::vector<value>(numbers.begin(), numbers.end())); }

// How many functions are being recorded by this thread.
inline int& recording_depth() {
  thread_local int depth = 0;
  return depth;
}
// Refuses an immediate change or draw while a function is recorded: it would happen then and never again.
inline void not_recorded(const std::string& what) {
  if (recording_depth() > 0) throw error(PERIGEE_USAGE, what + " would happen once, while the function is recorded, and not when it runs");
}

}  // namespace detail

}  // namespace perigee::api
