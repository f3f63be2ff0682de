// Memory of the shim's devices and pinned memory of the host: each allocation is a Buffer, so that who writes beside it, or touches it when
// it is gone, is named.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "tests/cuda/shim/state.h"

namespace shim {
namespace {

struct Allocation {
  std::unique_ptr<Buffer> buffer;
  int device = 0;
};
std::map<const void*, Allocation> memory, pinned;  // by where they begin
int open_depth = 0, opened = kNone;                // for kernels of that device

// The device that the address belongs to; kNone: it is the host's.
int device_of(const void* at) {
  const auto next = memory.upper_bound(at);
  if (next == memory.begin()) return kNone;
  const auto& [begin, allocation] = *std::prev(next);
  return at < static_cast<const std::byte*>(begin) + std::max<size_t>(allocation.buffer->size(), 1) ? allocation.device : kNone;
}

// PERIGEE_SHIM_MEMORY=open leaves the watch over memory out: with many allocations most of the time goes there.
bool watched() {
  static const bool yes = !is("PERIGEE_SHIM_MEMORY", "open");
  return yes;
}

bool fits(const void* to, const void* from, cudaMemcpyKind kind) {
  const bool to_device = device_of(to) != kNone, from_device = device_of(from) != kNone;
  switch (kind) {
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

}  // namespace

Open::Open() { ++open_depth; }
Open::~Open() {
  if (--open_depth == 0) open_for(kNone);
}

void open_for(int device) {
  if (device == opened || !watched()) return;
  for (auto& [at, of] : memory) {
    const auto touched = [own = of.device](int by) { return by == kAll || by == own; };
    if (touched(device) != touched(opened)) of.buffer->allow(touched(device));
  }
  opened = device;
}

const char* of_device(const char* variable, const char* fallback, int device) {
  const char* text = std::getenv(variable);
  if (text == nullptr) text = fallback;
  for (; device > 0 && std::strchr(text, ',') != nullptr; --device) text = std::strchr(text, ',') + 1;
  return text;
}

size_t total_memory(int device) { return static_cast<size_t>(std::atol(of_device("PERIGEE_SHIM_MEMORY_MB", "1024", device))) << 20; }

size_t used_memory() {
  size_t sum = 0;
  for (const auto& [at, of] : memory)
    if (of.device == current_device) sum += of.buffer->size();
  return sum;
}

}  // namespace shim

using namespace shim;

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex);
  *total = total_memory();
  *free = *total - std::min(*total, used_memory());
  return say(cudaSuccess);
}

cudaError_t cudaMalloc(void** to, size_t bytes) {
  const std::lock_guard lock(mutex);
  if (const cudaError_t status = say(driver_fault()); status != cudaSuccess) return status;
  if (const cudaError_t status = unsafe_call(); status != cudaSuccess) return status;
  if (malloc_is_faulty() || used_memory() + bytes > total_memory()) return say(cudaErrorMemoryAllocation);
  auto buffer = std::make_unique<Buffer>("device memory", bytes, 256);
  buffer->allow(opened == kAll || opened == current_device || !watched());
  *to = buffer->data();
  ++counters.allocations;
  memory.emplace(*to, Allocation{std::move(buffer), current_device});
  return say(cudaSuccess);
}

cudaError_t cudaFree(void* at) {
  const std::lock_guard lock(mutex);
  if (at == nullptr) return say(cudaSuccess);
  if (const cudaError_t status = unsafe_call(); status != cudaSuccess) return status;
  const auto found = memory.find(at);
  if (found == memory.end()) return say(cudaErrorInvalidValue);
  found->second.buffer->allow(true);  // it looks whether something was written beside it
  memory.erase(found);
  return say(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned) {
  const std::lock_guard lock(mutex);
  if (const cudaError_t status = unsafe_call(); status != cudaSuccess) return status;
  auto buffer = std::make_unique<Buffer>("pinned memory", bytes, 256);
  *to = buffer->data();
  pinned.emplace(*to, Allocation{std::move(buffer), kNone});
  return say(cudaSuccess);
}

cudaError_t cudaFreeHost(void* at) {
  const std::lock_guard lock(mutex);
  if (at == nullptr) return say(cudaSuccess);
  if (const cudaError_t status = unsafe_call(); status != cudaSuccess) return status;
  return say(pinned.erase(at) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(mutex);
  if (lost[current_device] != cudaSuccess) return say(lost[current_device]);
  if (const cudaError_t status = unsafe_call(); status != cudaSuccess) return status;
  if (const cudaError_t status = null_stream_call(); status != cudaSuccess) return status;
  if (!fits(to, from, kind)) return say(cudaErrorInvalidValue);
  const Open open;
  open_for(kAll);
  std::memmove(to, from, bytes);
  ++counters.waits;
  return say(cudaSuccess);
}

// CUDA captures a copy from or to pageable memory too; but the graph reads it when it runs, in the host's time. No caller here intends that.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (!fits(to, from, kind)) return say(cudaErrorInvalidValue);
  if (stream != nullptr && stream->capture != nullptr && !(in_buffer(to) && in_buffer(from)))
    return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  return enqueue(stream, false, [=] { std::memmove(to, from, bytes); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (device_of(to) != to_device || device_of(from) != from_device) return say(cudaErrorInvalidValue);
  return enqueue(stream, false, [=] { std::memmove(to, from, bytes); });
}

// A kernel in other words: of the current device's stream, on memory that a device reaches.
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (stream != nullptr && stream->device != current_device) return say(cudaErrorInvalidResourceHandle);
  if (!in_buffer(at)) return say(cudaErrorInvalidValue);
  return enqueue(stream, false, [=] { std::memset(at, value, bytes); });
}
