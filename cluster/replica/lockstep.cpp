#include "cluster/replica/lockstep.h"

#include <cassert>
#include <utility>

namespace perigee {

Lockstep::~Lockstep() {
  assert(over_);
  stop_ = true;
  go_.release();
  if (thread_.joinable()) thread_.join();
}

void Lockstep::begin(std::function<void()> work) {
  assert(over_);
  work_ = std::move(work);
  over_ = false;
  if (!thread_.joinable()) thread_ = std::thread([this] { thread_main(); });
}

bool Lockstep::resume() {
  assert(!over_);
  go_.release();
  back_.acquire();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return !over_;
}

void Lockstep::pause() {
  back_.release();
  go_.acquire();
}

void Lockstep::thread_main() {
  for (;;) {
    go_.acquire();
    if (stop_) return;
    try {
      work_();
    } catch (...) {  // no Lua in here: every exception is C++'s, and the owner gets it
      error_ = std::current_exception();
    }
    over_ = true;
    back_.release();
  }
}

}  // namespace perigee
