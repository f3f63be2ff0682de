// Work that is done a piece at a time: on a thread of its own, which runs only while its owner waits for it in resume(). What one of the
// two writes, the other sees.
#pragma once

#include <exception>
#include <functional>
#include <semaphore>
#include <thread>

namespace perigee {

class Lockstep {
 public:
  Lockstep() = default;
  ~Lockstep();  // no work is under way
  Lockstep(const Lockstep&) = delete;
  Lockstep& operator=(const Lockstep&) = delete;

  void begin(std::function<void()> work);  // none is under way; nothing is done yet
  bool resume();                           // to the next pause(): true; to the end: false. Throws what the work throws
  void pause();                            // for the work to call

 private:
  void thread_main();

  std::function<void()> work_;
  std::exception_ptr error_;
  bool over_ = true, stop_ = false;
  std::binary_semaphore go_{0}, back_{0};
  std::thread thread_;
};

}  // namespace perigee
