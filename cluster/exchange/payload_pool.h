// Memory for payloads, from round to round: memory without another holder is used again. Payloads go from thread to thread, so a thread
// that takes memory again must see the last look of others at it. One pool serves one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace perigee {

class PayloadPool {
 public:
  std::shared_ptr<std::vector<std::byte>> take(size_t bytes) {
    for (const auto& memory : kept_) {
      if (memory.use_count() > 1) continue;
      std::atomic_thread_fence(std::memory_order_acquire);
      memory->resize(bytes);
      return memory;
    }
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    if (kept_.size() < kMost) kept_.push_back(memory);
    return memory;
  }

 private:
  static constexpr size_t kMost = 128;  // more are given back
  std::vector<std::shared_ptr<std::vector<std::byte>>> kept_;
};

}  // namespace perigee
