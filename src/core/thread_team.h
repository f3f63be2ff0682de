// The threads of one training context. They live as long as the team, run the same function side by side, and meet at barriers
// that spin briefly before they sleep: a step is often shorter than a wake-up.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/kernel.h"

namespace perigee {

class ThreadTeam {
 public:
  explicit ThreadTeam(int size);  // at least 1; the caller of run() is rank 0
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }
  // Runs `work` on every thread and returns when all have ended. What a thread throws is rethrown here (the lowest rank's), so
  // `work` must not throw between two barriers that the others wait at.
  template <class Work>
  void run(Work&& work) {
    run_raw([](void* object, Team& team) { (*static_cast<std::remove_reference_t<Work>*>(object))(team); },
            const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Entry = void (*)(void* object, Team& team);
  class Member;
  void run_raw(Entry entry, void* object);  // not std::function: that allocates, in every step
  void thread_main(int rank);
  void barrier();

  static constexpr size_t kSharedBytes = size_t{1} << 20;  // of each of the two buffers that `shared` alternates

  const int size_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::thread> threads_;
  std::unique_ptr<std::byte[]> shared_;
  Entry entry_ = nullptr;
  void* object_ = nullptr;
  std::vector<std::exception_ptr> errors_;
  bool stop_ = false;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

}  // namespace perigee
