#include "src/net/timer.h"

#include <uv.h>

#include <cassert>
#include <utility>

namespace perigee {

struct UvTimer::Impl {
  uv_timer_t handle = {};
  UvLoop* loop = nullptr;
  std::function<void()> due;
};

UvTimer::UvTimer(UvLoop& loop, std::function<void()> due) : impl_(std::make_unique<Impl>()) {
  assert(due);
  impl_->loop = &loop;
  impl_->due = std::move(due);
  uv_timer_init(loop.handle(), &impl_->handle);
  impl_->handle.data = impl_.get();
}

UvTimer::~UvTimer() {
  auto* handle = reinterpret_cast<uv_handle_t*>(&impl_->handle);
  [[maybe_unused]] const Impl* owned_by_libuv = impl_.release();
  uv_close(handle, [](uv_handle_t* closed) { std::unique_ptr<Impl>(static_cast<Impl*>(closed->data)); });
}

void UvTimer::start(uint64_t after_ms, uint64_t every_ms) {
  uv_update_time(impl_->loop->handle());  // libuv's clock stands still during a callback
  const auto fired = [](uv_timer_t* handle) {
    Impl* impl = static_cast<Impl*>(handle->data);
    impl->loop->guard(impl->due);
  };
  uv_timer_start(&impl_->handle, fired, after_ms, every_ms);
}

void UvTimer::stop() { uv_timer_stop(&impl_->handle); }

}  // namespace perigee
