// One NVIDIA GPU as this process uses it: memory, streams, events, captured graphs. Everything comes from the CUDA module
// (src/device/cuda_module.h); what fails becomes an Error(resources) that says what to do.
//
// After a fault of the device (an illegal address) every call fails: the process can only end, and its work goes on elsewhere.
// One thread works with a Gpu at a time; select() makes it the calling thread's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "src/device/cuda_module.h"

namespace perigee {

class Gpu;

// The variable that says how many steps run op by op, each op waited for, so that a fault of the device names its op; 1: all of them.
inline constexpr const char* kOpByOp = "PERIGEE_CUDA_BLOCKING";
uint64_t steps_op_by_op();

// Sizes of allocations on a device are multiples of it.
inline constexpr size_t kDeviceBorder = 256;
inline size_t device_bytes(size_t bytes) { return std::max<size_t>((bytes + kDeviceBorder - 1) / kDeviceBorder, 1) * kDeviceBorder; }

// Move-only owner of memory of a device; its content is undefined at first.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(GpuMemory&& other) noexcept { *this = std::move(other); }
  GpuMemory& operator=(GpuMemory&& other) noexcept;
  ~GpuMemory();
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  friend class Gpu;
  Gpu* gpu_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// A handle of the module and what releases it.
class GpuHandle {
 public:
  GpuHandle() = default;
  GpuHandle(void* handle, int (*release)(void*)) : handle_(handle), release_(release) {}
  GpuHandle(GpuHandle&& other) noexcept { *this = std::move(other); }
  GpuHandle& operator=(GpuHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~GpuHandle() {
    if (handle_) release_(handle_);
  }
  void* get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  void* handle_ = nullptr;
  int (*release_)(void*) = nullptr;
};

class Gpu {
 public:
  // How many this machine has; 0 with a reason where it has none, no driver, or Perigee was built without CUDA.
  static int count(std::string* why);
  // The same of those that can train: 0, with a reason, where the driver or the first GPU is too old. `why` is empty where there is nothing
  // that a user would expect to be used: no driver, no device, a build without CUDA.
  static int usable(std::string* why);
  static constexpr int kNoDevice = 100;                  // a code of CUDA's runtime
  static std::string text(const CudaDevice& device);     // "NVIDIA H200, sm_90"
  static const char* too_old(const CudaDevice& device);  // why kernels do not run on it, and what to do; null: they do
  static const char* hint(int status);                   // what can be done; may be empty
  // Error(usage) where there is no such device; `where` begins it.
  Gpu(int index, const std::string& where);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const CudaModule& module() const { return *module_; }
  int index() const { return queue_.device; }
  const CudaDevice& properties() const { return properties_; }
  std::string name() const;                       // "cuda:0"
  CudaQueue& queue() { return queue_; }           // where kernels run
  void* copies() const { return copies_.get(); }  // a stream beside it
  void select();

  // Memory is kept for the next request of as much or hardly less, and given back when there is no more, or when more than a quarter of
  // what is in use is kept. `purpose` is said when there is none left.
  GpuMemory allocate(size_t bytes, const std::string& purpose);
  // Pinned memory of the host: copies from and to it run beside the host's work.
  GpuHandle allocate_pinned(size_t bytes);
  GpuHandle event();
  size_t allocated() const { return allocated_; }  // by us, now
  size_t peak() const { return peak_; }
  size_t held() const { return allocated_ + kept_bytes_; }  // and what is kept for the next
  size_t free_bytes();                                      // for us: of the device's, and of the limit
  void limit(size_t bytes) { limit_ = bytes; }              // on what we hold; 0: none
  // Gives back what is kept, and begins to count the peak anew: after measurements, whose memory no step takes.
  void forget_kept();

  // Queued behind what is there, and waited for; no bytes: nothing.
  void upload(void* to, const void* from, size_t bytes);
  void download(void* to, const void* from, size_t bytes);
  // Queued between the device and pinned memory of the host, on `stream`; null: where kernels run.
  void queue_upload(void* to, const void* from, size_t bytes, void* stream = nullptr);
  void queue_download(void* to, const void* from, size_t bytes, void* stream = nullptr);
  struct Traffic {
    size_t up = 0, down = 0;  // bytes
  };
  const Traffic& traffic() const { return traffic_; }  // with the host so far, but for what graphs bring
  void copy(void* to, const void* from, size_t bytes) { check(module_->copy(to, from, bytes, queue_.stream), "copy"); }
  void clear(void* memory, size_t bytes) { check(module_->clear(memory, bytes, queue_.stream), "clear memory"); }
  void wait();  // for all that was queued
  void wait_for(void* event, const std::string& doing);
  // For destructors: waits for the work on `stream` (null: where kernels run), and abandons it with a warning if it does not end.
  void drain(void* stream = nullptr) const noexcept;
  // For one of several GPUs: a wait for this one may have to wait for others, and must end when they fail.
  using Watch = std::function<void(void* event, const std::string& doing)>;
  void watch(Watch watch) { watch_ = std::move(watch); }
  // Runs `queue_work` without its work being done, and gives what can be launched instead, again and again.
  template <class QueueWork>
  GpuHandle capture(QueueWork queue_work);
  // The same; null with the reason where the work cannot be captured, as when a library waits or allocates in it.
  template <class QueueWork>
  GpuHandle try_capture(QueueWork queue_work, std::string* why);
  void launch(const GpuHandle& graph) { check(module_->launch_graph(graph.get(), queue_.stream), "launch a step's graph"); }

  // Error(resources) when `status` is one: what it was `doing`.
  void check(int status, const std::string& doing) const;
  // The same for what kernels queued; `what` names the op.
  void check_queue(const std::string& what) { check_queue(queue_, what); }
  void check_queue(CudaQueue& queue, const std::string& what);
  // One of this process came to no end. CUDA may wait for it when the process ends: main leaves by _Exit then.
  static bool hangs();
  bool lost_to_kernel() const;  // one of those that were queued faulted, or comes to no end

 private:
  friend class GpuMemory;
  GpuHandle end_try(std::string* why);
  void keep(std::byte* data, size_t bytes) noexcept;
  void release_kept(size_t down_to = 0) noexcept;  // the oldest first
  int take(size_t* bytes, void** data);            // of what is kept, or of the device

  const CudaModule* module_ = nullptr;
  std::string where_;
  CudaDevice properties_;
  CudaQueue queue_;
  GpuHandle copies_, mark_;
  Watch watch_;
  struct Kept {
    size_t bytes = 0;
    void* data = nullptr;
  };
  std::vector<Kept> kept_;  // in the order in which they came back
  size_t allocated_ = 0, peak_ = 0, kept_bytes_ = 0, limit_ = 0;
  Traffic traffic_;
};

template <class QueueWork>
GpuHandle Gpu::capture(QueueWork queue_work) {
  check(module_->begin_capture(queue_.stream), "begin a graph");
  void* graph = nullptr;
  try {
    queue_work();
  } catch (const std::exception&) {
    module_->end_capture(queue_.stream, nullptr);
    throw;
  }
  check(module_->end_capture(queue_.stream, &graph), "make a graph of a step");
  return {graph, module_->destroy_graph};
}

template <class QueueWork>
GpuHandle Gpu::try_capture(QueueWork queue_work, std::string* why) {
  check(module_->begin_capture(queue_.stream), "begin a graph");
  try {
    queue_work();
  } catch (const std::exception&) {
    module_->end_capture(queue_.stream, nullptr);
    throw;
  }
  return end_try(why);
}

}  // namespace perigee
