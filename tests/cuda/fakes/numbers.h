// Shared by the stand-ins of NVIDIA's libraries: numbers in memory, handles, and when they compute.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/half.h"

namespace perigee {

enum class Number { f32, f64, f16, bf16 };

inline double load(const void* data, int64_t at, Number type) {
  switch (type) {
    case Number::f64: return static_cast<const double*>(data)[at];
    case Number::f16: return float_from_f16(static_cast<const uint16_t*>(data)[at]);
    case Number::bf16: return float_from_bf16(static_cast<const uint16_t*>(data)[at]);
    case Number::f32: break;
  }
  return static_cast<const float*>(data)[at];
}

inline void store(void* data, int64_t at, Number type, double value) {
  switch (type) {
    case Number::f64: static_cast<double*>(data)[at] = value; return;
    case Number::f16: static_cast<uint16_t*>(data)[at] = f16_from_float(static_cast<float>(value)); return;
    case Number::bf16: static_cast<uint16_t*>(data)[at] = bf16_from_float(static_cast<float>(value)); return;
    case Number::f32: static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

// Each library tells its own by fake_live_handles().
inline std::atomic<int64_t> live_handles = 0;

template <class T, class... Arguments>
T* make_handle(Arguments&&... arguments) {
  ++live_handles;
  return std::make_unique<T>(T{std::forward<Arguments>(arguments)...}).release();
}

template <class T>
void drop_handle(T* handle) {
  --live_handles;
  const std::unique_ptr<T> dropped(handle);
}

// How to queue work on a stream; null: it is done at once. The shim's module gives its own way (fake_queue_by of each library), so that
// libraries are captured and run late like kernels.
using QueueWork = void (*)(void* stream, std::function<void()> work);
inline QueueWork queue_work = nullptr;

inline void do_on(void* stream, std::function<void()> work) {
  if (queue_work != nullptr) queue_work(stream, std::move(work));
  else work();
}

}  // namespace perigee
