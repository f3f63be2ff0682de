// One libuv loop and what every user of it needs: time, a way in from other threads, signals. All that is not marked otherwise belongs
// to the thread that calls run(). Exceptions do not cross libuv: the first one that leaves a callback ends run(), which throws it again.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "src/core/clock.h"

struct uv_loop_s;

namespace perigee {

class UvLoop final : public Clock {
 public:
  UvLoop();
  // Everything else that uses the loop must be gone; its handles may still be closing.
  ~UvLoop() override;
  UvLoop(const UvLoop&) = delete;
  UvLoop& operator=(const UvLoop&) = delete;

  uint64_t now_ns() const override;  // any thread

  // Until stop(); a loop without anything to do waits.
  void run();
  void stop();  // any thread, also before run(), which then returns at once
  // Does what is due now, without waiting: for a host that has a loop of its own.
  void poll();

  // Calls `work` on the loop thread, in order. Any thread. False when kMaxPosted wait already: it was not taken.
  static constexpr size_t kMaxPosted = 4096;
  bool post(std::function<void()> work);

  // Calls `handler` on the loop thread; an empty one gives the signal back its default action.
  void on_signal(int signal, std::function<void(int)> handler);

  uv_loop_s* handle();

  // For callbacks of libuv: calls `work`; what it throws is kept for run().
  template <class F>
  void guard(F&& work) {
    try {
      std::forward<F>(work)();
    } catch (const std::exception&) {
      fail(std::current_exception());
    }
  }
  void fail(std::exception_ptr error);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
