// A bounded queue between one producing and one consuming thread. Its places are used again as they are, with whatever memory their
// contents hold, so that a queue in steady use allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace perigee {

template <class T, size_t N>
class SpscQueue {
 public:
  // Producer: the place of the next element, to be filled before push(); null when the queue is full.
  T* place() { return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_acquire) < N ? &at(head_) : nullptr; }
  void push() {
    assert(head_.load() - tail_.load() < N);
    head_.fetch_add(1, std::memory_order_release);
    wake();
  }

  // Consumer: the oldest element, its own until pop(); null when there is none.
  T* front() { return tail_.load(std::memory_order_relaxed) != head_.load(std::memory_order_acquire) ? &at(tail_) : nullptr; }
  void pop() {
    assert(tail_.load() != head_.load());
    tail_.fetch_add(1, std::memory_order_release);
  }
  // Consumer: sleeps until there is an element or wake() is called. Returns at once when `stop` is set.
  void wait(const std::atomic<bool>& stop) {
    const uint32_t seen = signal_.load(std::memory_order_acquire);
    if (front() == nullptr && !stop) signal_.wait(seen, std::memory_order_acquire);
  }
  // Any thread.
  void wake() {
    signal_.fetch_add(1, std::memory_order_release);
    signal_.notify_one();
  }

 private:
  T& at(const std::atomic<uint64_t>& index) { return (*places_)[index.load(std::memory_order_relaxed) % N]; }

  std::unique_ptr<std::array<T, N>> places_ = std::make_unique<std::array<T, N>>();
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) std::atomic<uint32_t> signal_{0};
};

}  // namespace perigee
