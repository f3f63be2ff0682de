#include "src/device/gpu.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdlib>

#include "kernels/cuda/runtime/patience.h"
#include "src/core/warning.h"

namespace perigee {
namespace {

constexpr size_t kBorder = 256;
constexpr size_t kWaste = 32;                     // at most this part of what is given is not used
constexpr size_t kKeepsAlways = size_t{8} << 20;  // bytes that may be kept for the next, however little is in use

std::string mib(size_t bytes) { return std::to_string((bytes + (size_t{1} << 20) - 1) >> 20) + " MiB"; }

const CudaModule* module_of_machine(std::string* why) {
  const CudaModule* const module = cuda_module(why);
  if (module == nullptr) *why += "; build with nvcc (meson configure -Dcuda=enabled)";
  return module;
}

// Codes of CUDA's runtime that say more than their message.
constexpr int kOutOfMemory = 2, kFirstOfCaptures = 900, kLastOfCaptures = 908;
constexpr int kLeastCapability = 8;
std::atomic<bool> hung{false};
constexpr const char* kOtherGpu =
    "the CUDA module has kernels for sm_80, sm_90 and later; build it for this GPU, or train with device = \"cpu\"";

// All that comes after fails in the same way.
bool lost_to_kernel(int status) {
  switch (status) {
    case 700:  // illegal address
    case 702:  // a launch took too long
    case 709:  // the context is gone
    case 710:  // assert
    case 714:  // hardware stack
    case 715:  // illegal instruction
    case 716:  // misaligned
    case 717:  // address space
    case 718:  // program counter
    case 719:  // launch failed
    case 721:  // tensor memory
      return true;
    default: return false;
  }
}

// GPUs are counted from 0 among those that CUDA_VISIBLE_DEVICES leaves.
std::string visible_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible ? "CUDA_VISIBLE_DEVICES=" + std::string(visible) + " hides the others; what it leaves is counted from 0" : "";
}

}  // namespace

uint64_t steps_op_by_op() {
  const char* const text = std::getenv(kOpByOp);
  const long long steps = text ? std::atoll(text) : 0;
  return text == nullptr ? 0 : steps > 1 ? static_cast<uint64_t>(steps) : UINT64_MAX;
}

const char* Gpu::hint(int status) {
  switch (status) {
    case kOutOfMemory: return "other programs may hold the memory: nvidia-smi shows those on the GPU";
    case 35:   // insufficient driver
    case 803:  // system driver mismatch
      return "the NVIDIA driver is older than this build's CUDA; `perigee doctor` shows both; update the driver";
    case 804: return "forward compatibility packages serve data centre GPUs alone; update the driver itself";
    case 222: return "this driver knows no code as new as the module's; update the driver";
    case 46: return "another process has the GPU for itself, or it is broken: nvidia-smi -q -d COMPUTE,PIDS says which";
    case 100: return "`perigee doctor` says what was found; train with device = \"cpu\"";
    case 209: return kOtherGpu;
    case 214:  // ECC
    case 220:  // NVLink
    case 226:  // contained
      return "the GPU's memory or link failed; nvidia-smi -q says what, and the process can only be started again";
    case 802: return "GPUs behind NVSwitch need the service nvidia-fabricmanager: see that it runs";
    case 701: return "a kernel asks for more registers or shared memory than this GPU has; the device is not lost";
    case 704:  // peer access: there already
    case 705:  // not there
    case 711:  // too many
      return "the GPUs do not reach each other directly; nvidia-smi topo -p2p r shows which may";
    case 708: return "something else in this process set the device up before";
    case 712:  // registered already
    case 713:  // not registered
      return "the host's memory is pinned, or let go, twice";
    case kCudaTimeout:
      return "the GPU hangs, or needs longer: PERIGEE_CUDA_TIMEOUT says how many seconds are waited; this process can only end";
    default:
      return perigee::lost_to_kernel(status) ? "the device is lost to this process; PERIGEE_CUDA_BLOCKING=1 runs op by op and names the one"
                                             : "";
  }
}

int Gpu::count(std::string* why) {
  const CudaModule* const module = module_of_machine(why);
  if (module == nullptr) return 0;
  int count = 0;
  if (const int status = module->device_count(&count); status != 0) {
    int driver = 0, runtime = 0;
    module->versions(&driver, &runtime);
    *why = driver == 0 ? "there is no NVIDIA driver" : module->message(status);
    return 0;
  }
  if (count == 0) *why = "no CUDA-capable device is detected";
  return count;
}

std::string Gpu::text(const CudaDevice& device) {
  return std::string(device.name) + ", sm_" + std::to_string(device.major) + std::to_string(device.minor);
}

const char* Gpu::too_old(const CudaDevice& device) { return device.major < kLeastCapability ? kOtherGpu : nullptr; }

int Gpu::usable(std::string* why) {
  why->clear();
  std::string ignored;
  const CudaModule* const module = cuda_module(&ignored);
  if (module == nullptr) return 0;
  int count = 0, driver = 0, runtime = 0;
  module->versions(&driver, &runtime);
  const int status = module->device_count(&count);
  CudaDevice first;
  if (status != 0 && status != kNoDevice && driver > 0) *why = std::string(module->message(status)) + "; `perigee doctor` says more";
  if (status != 0 || count == 0 || module->device(0, &first) != 0) return 0;
  if (const char* old = too_old(first)) *why = text(first) + ": " + old;
  return why->empty() ? count : 0;
}

Gpu::Gpu(int index, const std::string& where) : where_(where) {
  std::string why;
  module_ = module_of_machine(&why);
  queue_.device = index;  // whose errors these are
  const int devices = count(&why);
  if (index < 0 || index >= devices)
    throw Error(ErrorKind::usage,
                {.where = where,
                 .what = "there is no such device",
                 .got = "cuda:" + std::to_string(index),
                 .expected = devices == 0   ? ""
                             : devices == 1 ? "cuda:0"
                                            : "cuda:0 to cuda:" + std::to_string(devices - 1),
                 .hint = devices == 0 ? why + "; `perigee doctor` says more; device = \"cpu\" trains on the CPU" : visible_devices()});
  if (!cuda_patience_is_clear())
    throw Error(ErrorKind::usage, {.where = "PERIGEE_CUDA_TIMEOUT",
                                   .what = "this is not how long a GPU can be waited for",
                                   .got = cuda_patience_text(),
                                   .expected = "seconds, at least 1"});
  check(module_->select(index), "use the device");
  check(module_->device(index, &properties_), "ask for the device's properties");
  const int opened = module_->open_queue(index, &queue_);
  queue_.device = index;
  check(opened, "open a stream");
  void* stream = nullptr;
  check(module_->create_stream(&stream), "open a stream");
  copies_ = GpuHandle(stream, module_->destroy_stream);
}

Gpu::~Gpu() {
  module_->select(index());
  assert(allocated_ == 0);
  release_kept();
  copies_ = {}, mark_ = {};
  module_->close_queue(&queue_);
}

std::string Gpu::name() const { return "cuda:" + std::to_string(index()); }

void Gpu::select() { check(module_->select(index()), "use the device"); }

void Gpu::check(int status, const std::string& doing) const {
  if (status == 0) return;
  throw Error(ErrorKind::resources, {.where = where_ + ": cuda:" + std::to_string(index()),
                                     .what = "the GPU could not " + doing,
                                     .got = module_->message(status),
                                     .hint = hint(status)});
}

bool Gpu::lost_to_kernel() const {
  const int status = module_->wait_for_stream(queue_.stream);
  return status == kCudaTimeout || perigee::lost_to_kernel(status);
}

void Gpu::check_queue(CudaQueue& queue, const std::string& what) {
  if (queue.status == 0) return;
  const int status = std::exchange(queue.status, 0);
  const char* kernel = std::exchange(queue.failed, nullptr);
  throw Error(ErrorKind::resources, {.where = where_ + ": " + name(),
                                     .what = "the GPU could not run " + what + (kernel ? std::string(", kernel '") + kernel + "'" : ""),
                                     .got = module_->message(status),
                                     .hint = hint(status)});
}

int Gpu::take(size_t* bytes, void** data) {
  auto best = kept_.end();
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept)
    if (kept->bytes >= *bytes && kept->bytes - *bytes <= kept->bytes / kWaste && (best == kept_.end() || kept->bytes < best->bytes))
      best = kept;
  if (best != kept_.end()) {
    *data = best->data;
    *bytes = best->bytes;
    kept_bytes_ -= best->bytes;
    kept_.erase(best);
    return 0;
  }
  if (limit_ > 0 && held() + *bytes > limit_) release_kept();
  if (limit_ > 0 && held() + *bytes > limit_) return kOutOfMemory;
  int status = module_->allocate(*bytes, data);
  if (status == kOutOfMemory && !kept_.empty()) {
    release_kept();
    status = module_->allocate(*bytes, data);
  }
  return status;
}

GpuMemory Gpu::allocate(size_t bytes, const std::string& purpose) {
  select();
  GpuMemory memory;
  memory.bytes_ = bytes == 0 ? kBorder : (bytes + kBorder - 1) / kBorder * kBorder;
  void* data = nullptr;
  const int status = take(&memory.bytes_, &data);
  if (status == kOutOfMemory)
    throw Error(ErrorKind::resources,
                {.where = where_ + ": " + name(),
                 .what = "no memory is left on the GPU for " + purpose,
                 .got = mib(memory.bytes_) + " are wanted, " + mib(free_bytes()) + " of " +
                        mib(limit_ > 0 ? limit_ : properties_.memory_bytes) + " are free; we hold " + mib(allocated_)});
  check(status, "allocate memory for " + purpose);
  memory.gpu_ = this;
  memory.data_ = static_cast<std::byte*>(data);
  allocated_ += memory.bytes_;
  peak_ = std::max(peak_, allocated_);
  return memory;
}

GpuHandle Gpu::allocate_pinned(size_t bytes) {
  select();
  void* data = nullptr;
  check(module_->allocate_pinned(std::max<size_t>(bytes, 1), &data), "pin " + mib(bytes) + " of the host's memory");
  return {data, module_->release_pinned};
}

GpuHandle Gpu::event() {
  select();
  void* event = nullptr;
  check(module_->create_event(&event), "make an event");
  return {event, module_->destroy_event};
}

size_t Gpu::free_bytes() {
  select();
  size_t free = 0, total = 0;
  if (module_->memory(&free, &total) != 0) return 0;
  return limit_ == 0 ? free : std::min(free, limit_ - std::min(limit_, held()));
}

void Gpu::forget_kept() {
  release_kept();
  peak_ = allocated_;
}

GpuHandle Gpu::end_try(std::string* why) {
  const int queued = std::exchange(queue_.status, 0);
  const char* const failed = std::exchange(queue_.failed, nullptr);
  void* graph = nullptr;
  const int ended = module_->end_capture(queue_.stream, queued == 0 ? &graph : nullptr);
  const int status = queued != 0 ? queued : ended;
  if (status == 0) return {graph, module_->destroy_graph};
  *why = queued == kLibraryFailed && failed ? failed : module_->message(status);
  const bool of_captures = status >= kFirstOfCaptures && status <= kLastOfCaptures;
  if (status != kLibraryFailed && !of_captures) check(status, "make a graph of " + *why);
  return {};
}

void Gpu::wait() {
  if (!watch_) return check(module_->wait_for_stream(queue_.stream), "finish what was queued");
  if (!mark_) mark_ = event();
  check(module_->record_event(mark_.get(), queue_.stream), "record an event");
  wait_for(mark_.get(), "finish what was queued");
}

void Gpu::wait_for(void* event, const std::string& doing) {
  if (!watch_) return check(module_->wait_for_event(event), doing);
  watch_(event, doing);
  select();
}

bool Gpu::hangs() { return hung; }

void Gpu::drain(void* stream) const noexcept {
  module_->select(index());
  if (module_->wait_for_stream(stream ? stream : queue_.stream) == kCudaTimeout && !hung.exchange(true))
    warn(name() + " " + no_end_text(cuda_patience_s()) + ": its memory is not given back before the process ends");
}

void Gpu::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  queue_upload(to, from, bytes);
  wait();
}

void Gpu::download(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  queue_download(to, from, bytes);
  wait();
}

void Gpu::queue_upload(void* to, const void* from, size_t bytes, void* stream) {
  traffic_.up += bytes;
  check(module_->copy(to, from, bytes, stream ? stream : queue_.stream), "copy to the device");
}

void Gpu::queue_download(void* to, const void* from, size_t bytes, void* stream) {
  traffic_.down += bytes;
  check(module_->copy(to, from, bytes, stream ? stream : queue_.stream), "copy from the device");
}

void Gpu::keep(std::byte* data, size_t bytes) noexcept {
  allocated_ -= bytes;
  kept_.push_back({bytes, data});
  kept_bytes_ += bytes;
  if (kept_bytes_ > std::max(kKeepsAlways, allocated_ / 4)) release_kept(std::max(kKeepsAlways, allocated_ / 4));
}

void Gpu::release_kept(size_t down_to) noexcept {
  if (kept_bytes_ <= down_to) return;
  drain();  // it may be in use there still
  auto kept = kept_.begin();
  for (; kept_bytes_ > down_to; ++kept) {
    module_->release(kept->data);
    kept_bytes_ -= kept->bytes;
  }
  kept_.erase(kept_.begin(), kept);
}

GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GpuMemory::~GpuMemory() {
  if (data_) gpu_->keep(data_, bytes_);
}

}  // namespace perigee
