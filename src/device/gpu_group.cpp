#include "src/device/gpu_group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "kernels/cuda/runtime/patience.h"
#include "src/core/warning.h"

namespace perigee {

constexpr size_t kAll = SIZE_MAX;  // GPUs

std::string device_list(std::span<const int> devices) {
  std::string text = "cuda:";
  for (size_t i = 0; i < devices.size();) {
    size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1] == devices[last] + 1) ++last;
    text += (i > 0 ? "," : "") + std::to_string(devices[i]);
    if (last > i) text += (last > i + 1 ? "-" : ",") + std::to_string(devices[last]);
    i = last + 1;
  }
  return text;
}

void check_devices(std::span<const int> devices, const std::string& where) {
  if (devices.size() > kMostGpus)
    throw Error(ErrorKind::usage, {.where = where,
                                   .what = "one process trains on so many GPUs at most",
                                   .got = device_list(devices),
                                   .expected = std::to_string(kMostGpus)});
  for (size_t i = 0; i < devices.size(); ++i)
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i))
      throw Error(ErrorKind::usage, {.where = where,
                                     .what = "a device is named twice",
                                     .got = device_list(devices),
                                     .hint = "each GPU takes its own part of the work"});
}

GpuGroup::GpuGroup(std::span<const int> devices, const std::string& where, bool deterministic) : where_(where) {
  check_devices(devices, where);
  for (const int device : devices) {
    gpus_.push_back(std::make_unique<Gpu>(device, where));
    gpus_.back()->queue().deterministic = deterministic;
  }
  if (size() > 1) {
    check_kinds();
    for (const auto& gpu : gpus_) {
      gpu->select();
      void* stream = nullptr;
      gpu->check(gpu->module().create_stream(&stream), "open a stream");
      streams_.emplace_back(stream, gpu->module().destroy_stream);
      forked_.push_back(gpu->event());
      joined_.push_back(gpu->event());
      marks_.push_back(gpu->event());
    }
    choose_sums(deterministic);
    for (size_t i = 0; i < size(); ++i) gpus_[i]->watch([this, i](void* event, const std::string& doing) { wait_for(i, event, doing); });
  }
  first().select();
}

// Each updates its own copy of the parameters: code for another architecture might round otherwise, and the copies would part.
void GpuGroup::check_kinds() const {
  const auto kind = [](const Gpu& gpu) {
    return gpu.name() + " " + gpu.properties().name + " (" + std::to_string(gpu.properties().major) + "." +
           std::to_string(gpu.properties().minor) + ")";
  };
  const CudaDevice& wanted = first().properties();
  for (const auto& gpu : gpus_)
    if (gpu->properties().major != wanted.major || gpu->properties().minor != wanted.minor)
      throw Error(ErrorKind::usage, {.where = where_,
                                     .what = "GPUs of different compute capability cannot train one model together",
                                     .got = kind(first()) + ", " + kind(*gpu),
                                     .hint = "name those of one kind, as in --device cuda:0,1"});
}

GpuGroup::~GpuGroup() {
  if (size() > 1 && !aborted_)
    for (size_t i = 0; i < size(); ++i) gpus_[i]->drain(streams_[i].get());
}

void GpuGroup::choose_sums(bool deterministic) {
  if (deterministic) why_not_nccl_ = "deterministic asks for a fixed order";
  else watching_memory([&] { sums_ = nccl_sums(gpus_, &why_not_nccl_); });
  if (!sums_) sums_ = copied_sums(gpus_);
  if (!sums_->can_be_captured() && !deterministic) warn(name() + ": gradients are added up by " + sums());
}

std::string GpuGroup::name() const {
  std::vector<int> devices;
  for (const auto& gpu : gpus_) devices.push_back(gpu->index());
  return device_list(devices);
}

std::string GpuGroup::sums() const {
  if (!sums_) return "";
  return sums_->name() + (why_not_nccl_.empty() ? "" : ": " + why_not_nccl_);
}

size_t GpuGroup::free_bytes() {
  size_t free = SIZE_MAX;
  for (const auto& gpu : gpus_) free = std::min(free, gpu->free_bytes());
  first().select();
  return free;
}

size_t GpuGroup::room() {
  size_t room = SIZE_MAX;
  for (const auto& gpu : gpus_) room = std::min(room, gpu->free_bytes() + gpu->held());
  first().select();
  return room;
}

// Other processes' comings and goings in between are counted too: it is for people to read.
template <class Act>
void GpuGroup::watching_memory(Act act) {
  const auto free_now = [&] {
    std::vector<size_t> free(size());
    for (size_t i = 0; i < size(); ++i) {
      size_t total = 0;
      gpus_[i]->select();
      if (gpus_[i]->module().memory(&free[i], &total) != 0) free[i] = 0;
    }
    return free;
  };
  const std::vector<size_t> before = free_now();
  act();
  const std::vector<size_t> after = free_now();
  bytes_of_sums_.resize(size());
  for (size_t i = 0; i < size(); ++i) bytes_of_sums_[i] += before[i] - std::min(before[i], after[i]);
}

void GpuGroup::connect(std::span<const std::vector<GroupSum>> sums) {
  watching_memory([&] {
    for (const std::vector<GroupSum>& each : sums) add_up(each);
    join();
    wait("add up what the GPUs computed");
  });
  first().select();
}

void GpuGroup::add_up(std::span<const GroupSum> sums) {
  for (size_t i = 0; i < size(); ++i) {
    Gpu& gpu = *gpus_[i];
    gpu.select();
    gpu.check(gpu.module().record_event(forked_[i].get(), gpu.queue().stream), "record an event");
    gpu.check(gpu.module().stream_waits(streams_[i].get(), forked_[i].get()), "wait for gradients");
  }
  queue_sums(sums);
}

void GpuGroup::queue_sums(std::span<const GroupSum> sums) {
  sums_->queue(sums, streams_);
  first().select();
}

void GpuGroup::join() {
  for (size_t i = 0; i < size(); ++i) {
    Gpu& gpu = *gpus_[i];
    gpu.select();
    gpu.check(gpu.module().record_event(joined_[i].get(), streams_[i].get()), "record an event");
    gpu.check(gpu.module().stream_waits(gpu.queue().stream, joined_[i].get()), "wait for sums");
  }
  first().select();
}

void GpuGroup::wait(std::span<void* const> events, const std::string& doing) { poll(events, kAll, doing); }

void GpuGroup::wait_for(size_t i, void* event, const std::string& doing) {
  if (size() == 1 || aborted_) return gpus_[i]->check(gpus_[i]->module().wait_for_event(event), doing);
  std::array<void*, kMostGpus> events;
  for (size_t other = 0; other < size(); ++other) events[other] = marks_[other].get();  // whether one is lost, any event says
  events[i] = event;
  poll({events.data(), size()}, i, doing);
}

void GpuGroup::wait(const std::string& doing) {
  if (size() == 1) return first().wait();
  std::array<void*, kMostGpus> events;
  mark();
  for (size_t i = 0; i < size(); ++i) events[i] = marks_[i].get();
  poll({events.data(), size()}, kAll, doing);
}

void GpuGroup::mark() {
  for (size_t i = 0; i < size(); ++i) {
    gpus_[i]->select();
    gpus_[i]->check(gpus_[i]->module().record_event(marks_[i].get(), gpus_[i]->queue().stream), "record an event");
  }
  first().select();
}

// Until all events are reached, or `only` that one: of the others only failures count.
void GpuGroup::poll(std::span<void* const> events, size_t only, const std::string& doing) {
  if (size() == 1) return first().check(first().module().wait_for_event(events[0]), doing);
  constexpr int kSpins = 1000;
  const auto begin = std::chrono::steady_clock::now();
  for (int tries = 0;; ++tries) {
    bool ready = true;
    for (size_t i = 0; i < size(); ++i) {
      const int status = gpus_[i]->module().event_reached(events[i]);
      if (status != 0 && status != kCudaNotReady) fail(i, status, doing);
      ready = ready && (status == 0 || (only != kAll && only != i));
    }
    if (ready) return;
    if (tries < kSpins) continue;
    if (tries % kSpins == 0) {
      if (const std::string why = sums_->failed(); !why.empty()) give_up(doing, why, "");
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > cuda_patience_s())
        give_up(doing, "they " + no_end_text(cuda_patience_s()),
                "NCCL_DEBUG=INFO shows what NCCL does; PERIGEE_CUDA_TIMEOUT says how many seconds are waited");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void GpuGroup::give_up(const std::string& doing, const std::string& why, const std::string& hint) {
  abort();
  throw Error(ErrorKind::resources, {.where = where_ + ": " + name(), .what = "the GPUs could not " + doing, .got = why, .hint = hint});
}

void GpuGroup::fail(size_t i, int status, const std::string& doing) {
  abort();
  gpus_[i]->check(status, doing);
}

void GpuGroup::abort() noexcept {
  if (aborted_ || !sums_) return;
  aborted_ = true;
  sums_->abort();
}

}  // namespace perigee
