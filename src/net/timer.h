// A timer of a loop, once or again and again. Its function is called on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "src/net/loop.h"

namespace perigee {

class UvTimer {
 public:
  UvTimer(UvLoop& loop, std::function<void()> due);
  ~UvTimer();  // no call follows
  UvTimer(const UvTimer&) = delete;
  UvTimer& operator=(const UvTimer&) = delete;

  void start(uint64_t after_ms, uint64_t every_ms = 0);  // anew; every 0: once
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // libuv has it until its handle is closed
};

}  // namespace perigee
