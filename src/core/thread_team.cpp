#include "src/core/thread_team.h"

#include <cassert>
#include <cstdint>

namespace perigee {
namespace {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kSpins = 4000;  // about 50 microseconds

}  // namespace

class ThreadTeam::Member final : public Team {
 public:
  Member(ThreadTeam& team, int rank) : team_(team), rank_(rank) {}
  int size() const override { return team_.size_; }
  int rank() const override { return rank_; }
  void barrier() override { team_.barrier(); }
  void* shared(size_t bytes) override {
    assert(bytes <= kSharedBytes);
    (void)bytes;
    return team_.shared_.get() + (calls_++ % 2) * kSharedBytes;
  }

 private:
  ThreadTeam& team_;
  int rank_;
  uint64_t calls_ = 0;
};

ThreadTeam::ThreadTeam(int size)
    : size_(size < 1 ? 1 : size), shared_(std::make_unique<std::byte[]>(2 * kSharedBytes)), errors_(static_cast<size_t>(size_)) {
  for (int rank = 0; rank < size_; ++rank) members_.push_back(std::make_unique<Member>(*this, rank));
  for (int rank = 1; rank < size_; ++rank) threads_.emplace_back([this, rank] { thread_main(rank); });
}

ThreadTeam::~ThreadTeam() {
  stop_ = true;
  if (size_ > 1) barrier();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::barrier() {
  if (size_ == 1) return;
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (generation_.load(std::memory_order_acquire) != generation) return;
    pause();
  }
  while (generation_.load(std::memory_order_acquire) == generation) generation_.wait(generation, std::memory_order_acquire);
}

void ThreadTeam::thread_main(int rank) {
  while (true) {
    barrier();  // run() has set the entry
    if (stop_) return;
    try {
      entry_(object_, *members_[static_cast<size_t>(rank)]);
    } catch (const std::exception&) {
      errors_[static_cast<size_t>(rank)] = std::current_exception();
    }
    barrier();  // all have ended
  }
}

void ThreadTeam::run_raw(Entry entry, void* object) {
  entry_ = entry;
  object_ = object;
  barrier();
  try {
    entry(object, *members_[0]);
  } catch (const std::exception&) {
    errors_[0] = std::current_exception();
  }
  barrier();
  for (std::exception_ptr& error : errors_)
    if (error) {
      const std::exception_ptr first = error;
      for (std::exception_ptr& other : errors_) other = nullptr;
      std::rethrow_exception(first);
    }
}

}  // namespace perigee
