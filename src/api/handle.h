// Shared by the handles of the C ABI: turns, the last message, and the border at which exceptions become statuses.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <type_traits>

#include "perigee.h"
#include "src/core/advice.h"
#include "src/core/error.h"

namespace perigee {

// A mutex whose holder can see that others wait for it, so that a training loop that releases it between two steps lets them in.
class TurnMutex {
 public:
  void lock() {
    waiting_.fetch_add(1);
    mutex_.lock();
    waiting_.fetch_sub(1);
  }
  void unlock() { mutex_.unlock(); }
  // Called without the lock; returns when the waiting threads have had it.
  void let_others_in() const {
    while (waiting_.load() > 0) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

// The last failure of one handle, until a call of the same thread succeeds: the success of another thread takes no message away.
class Message {
 public:
  void set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ = text;
    thread_ = std::this_thread::get_id();
    there_ = true;
  }
  void succeeded() {
    if (!there_) return;
    const std::lock_guard lock(mutex_);
    if (thread_ != std::this_thread::get_id()) return;
    text_.clear();
    there_ = false;
  }
  // A copy that belongs to the calling thread and lives until it has asked for sixteen others.
  const char* get() const;

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::thread::id thread_;  // that the failed call was in
  std::atomic<bool> there_{false};
};

// Warnings that arise in this thread while it lives go to `log` instead of standard error.
class LogScope {
 public:
  LogScope(perigee_log_function log, void* user) noexcept;
  static void deliver(const std::string& text);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  perigee_log_function log_;
  void* user_;
  LogScope* outer_;            // of this thread
  LogScope *before_, *after_;  // of all threads
};

// Shared by everything that a context made.
struct ContextState {
  int threads = 0;
  perigee_log_function log = nullptr;
  void* log_user = nullptr;
  std::string device;  // empty: the job's
};

// The number that a caller in C gave where an enumeration is expected. Reading one that is no enumerator as the enumeration is undefined.
template <class Enum>
int number_of(const Enum& given) {
  int number;
  static_assert(sizeof number == sizeof given);
  std::memcpy(&number, &given, sizeof number);
  return number;
}

// The one place where exceptions end. `work` returns nothing or a status.
template <class Work>
perigee_status guard(const ContextState& context, Message& message, Work&& work) noexcept {
  const LogScope log(context.log, context.log_user);
  const auto failed = [&](perigee_status status, const char* text) noexcept {
    try {
      message.set(advice_for(Voice::library, text));
    } catch (const std::exception&) {  // no memory for the message: the status still tells
    }
    return status;
  };
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      message.succeeded();
      return PERIGEE_OK;
    } else {
      const perigee_status status = work();
      if (status == PERIGEE_OK) message.succeeded();
      return status;
    }
  } catch (const Error& error) {
    return failed(static_cast<perigee_status>(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return failed(PERIGEE_RESOURCES, "not enough memory");
  } catch (const std::exception& error) {
    return failed(PERIGEE_INTERNAL, error.what());
  }
}

[[noreturn]] inline void misuse(const char* function, const std::string& what, const std::string& got = "",
                                const std::string& expected = "") {
  throw Error(ErrorKind::usage, {.where = function, .what = what, .got = got, .expected = expected});
}

inline void require(bool fine, const char* function, const char* what) {
  if (!fine) misuse(function, what);
}

// A size-prefixed struct as this library knows it: what an older caller's struct lacks is zero. Error(usage) when a newer caller
// asks for something that this library does not have.
template <class Options>
Options read_struct(const Options* from, const char* function) {
  Options options{};
  if (!from) return options;
  if (from->size < sizeof(size_t) || from->size > size_t{1} << 16)
    misuse(function, "the struct's `size` is not set", std::to_string(from->size), "sizeof, as PERIGEE_INIT sets it");
  std::memcpy(&options, from, std::min(from->size, sizeof options));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof options; i < from->size; ++i)
    if (bytes[i] != 0)
      misuse(function, "the program asks for an option that this library does not have", "", "a library as new as its header");
  return options;
}

// The same in the other direction; `to->size` is the caller's.
template <class Report>
void write_struct(Report from, Report* to, const char* function) {
  if (!to) return;
  if (to->size < sizeof(size_t) || to->size > size_t{1} << 16)
    misuse(function, "the struct's `size` is not set", std::to_string(to->size), "sizeof, as PERIGEE_INIT sets it");
  from.size = to->size;
  std::memcpy(to, &from, std::min(to->size, sizeof from));
}

// A copy that perigee_free frees.
char* copy_text(const std::string& text);

}  // namespace perigee
