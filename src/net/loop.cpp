#include "src/net/loop.h"

#include <signal.h>
#include <uv.h>

#include <atomic>
#include <cassert>
#include <map>
#include <mutex>
#include <vector>

#include "src/core/error.h"

namespace perigee {
namespace {

struct SignalWatch {
  uv_signal_t handle;
  UvLoop* loop = nullptr;
  std::function<void(int)> handler;
};

void close_watch(std::unique_ptr<SignalWatch> watch) {
  watch->handler = nullptr;
  auto* handle = reinterpret_cast<uv_handle_t*>(&watch->handle);
  handle->data = watch.release();
  uv_close(handle, [](uv_handle_t* closed) { std::unique_ptr<SignalWatch>(static_cast<SignalWatch*>(closed->data)); });
}

// A peer that is gone while we write to it ends that connection, not this process. A handler of the embedding program is left alone.
void ignore_broken_pipes() {
  struct sigaction now = {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

[[noreturn]] void refuse_loop(const std::string& what, int status) {
  const bool files = status == UV_EMFILE || status == UV_ENFILE;
  throw Error(ErrorKind::resources,
              {.what = what, .got = uv_strerror(status), .hint = files ? "raise the limit of open files: ulimit -n" : ""});
}

}  // namespace

struct UvLoop::Impl {
  uv_loop_t loop;
  uv_async_t wake;
  UvLoop* self = nullptr;
  std::atomic<bool> stopping{false};
  std::exception_ptr error;
  std::mutex mutex;                            // of `posted`
  std::vector<std::function<void()>> posted;   // by any thread
  std::vector<std::function<void()>> running;  // being called; keeps its memory
  size_t next = 0;                             // of `running`
  std::map<int, std::unique_ptr<SignalWatch>> signals;

  // Work that is posted while this runs waits for the next turn, so that sockets get theirs.
  void run_posted() {
    {
      const std::lock_guard lock(mutex);
      if (running.empty()) {
        std::swap(posted, running);
        next = 0;
      } else if (!posted.empty()) {
        uv_async_send(&wake);  // what was left when the loop stopped comes first
      }
    }
    while (next < running.size() && !stopping) {
      const std::function<void()> work = std::move(running[next++]);
      self->guard(work);
    }
    if (next == running.size()) running.clear();
    if (stopping) uv_stop(&loop);
  }

  void run(uv_run_mode mode) {
    if (!running.empty()) uv_async_send(&wake);  // stopped in the midst of it
    if (!stopping) uv_run(&loop, mode);
    stopping = false;
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
};

UvLoop::UvLoop() : impl_(std::make_unique<Impl>()) {
  impl_->self = this;
  ignore_broken_pipes();
  const int status = uv_loop_init(&impl_->loop);
  if (status != 0) refuse_loop("cannot make an event loop", status);
  impl_->loop.data = this;
  impl_->wake.data = impl_.get();
  [[maybe_unused]] const int async =
      uv_async_init(&impl_->loop, &impl_->wake, [](uv_async_t* wake) { static_cast<Impl*>(wake->data)->run_posted(); });
  assert(async == 0);
}

UvLoop::~UvLoop() {
  for (auto& [signal, watch] : impl_->signals) close_watch(std::move(watch));
  uv_close(reinterpret_cast<uv_handle_t*>(&impl_->wake), nullptr);
  // Closing takes turns of the loop; requests that were under way (a name being looked up) end in them too.
  while (uv_loop_alive(&impl_->loop)) uv_run(&impl_->loop, UV_RUN_ONCE);
  [[maybe_unused]] const int status = uv_loop_close(&impl_->loop);
  assert(status == 0);
}

uint64_t UvLoop::now_ns() const { return uv_hrtime(); }
uv_loop_s* UvLoop::handle() { return &impl_->loop; }
void UvLoop::run() { impl_->run(UV_RUN_DEFAULT); }
void UvLoop::poll() { impl_->run(UV_RUN_NOWAIT); }

void UvLoop::stop() {
  impl_->stopping = true;
  uv_async_send(&impl_->wake);
}

bool UvLoop::post(std::function<void()> work) {
  assert(work);
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->posted.size() >= kMaxPosted) return false;
    impl_->posted.push_back(std::move(work));
  }
  uv_async_send(&impl_->wake);
  return true;
}

void UvLoop::fail(std::exception_ptr error) {
  assert(error);
  if (!impl_->error) impl_->error = std::move(error);
  stop();
}

void UvLoop::on_signal(int signal, std::function<void(int)> handler) {
  auto& slot = impl_->signals[signal];
  if (slot) close_watch(std::move(slot));
  if (!handler) {
    impl_->signals.erase(signal);
    return;
  }
  slot = std::make_unique<SignalWatch>();
  slot->loop = this;
  slot->handler = std::move(handler);
  int status = uv_signal_init(&impl_->loop, &slot->handle);
  const bool made = status == 0;
  slot->handle.data = slot.get();
  const auto fired = [](uv_signal_t* handle, int number) {
    auto* watch = static_cast<SignalWatch*>(handle->data);
    const std::function<void(int)> call = watch->handler;  // it may take itself away
    if (call) watch->loop->guard([&] { call(number); });
  };
  if (made) status = uv_signal_start(&slot->handle, fired, signal);
  if (status == 0) return;
  if (made) close_watch(std::move(slot));
  impl_->signals.erase(signal);
  refuse_loop("cannot watch signal " + std::to_string(signal), status);
}

}  // namespace perigee
