#include "src/device/gpu_group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "src/core/warning.h"

namespace perigee {

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
  }
  first().select();
}

GpuGroup::~GpuGroup() {
  if (size() > 1 && !aborted_)
    for (size_t i = 0; i < size(); ++i) first().module().wait_for_stream(streams_[i].get());
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

void GpuGroup::wait(std::span<void* const> events, const std::string& doing) { wait(events, events.size(), doing); }

void GpuGroup::wait_for(void* event, const std::string& doing) {
  if (size() == 1) return first().check(first().module().wait_for_event(event), doing);
  std::array<void*, kMostGpus> events;
  mark();
  events[0] = event;
  for (size_t i = 1; i < size(); ++i) events[i] = marks_[i].get();
  wait({events.data(), size()}, 1, doing);
}

void GpuGroup::wait(const std::string& doing) {
  if (size() == 1) return first().wait();
  std::array<void*, kMostGpus> events;
  mark();
  for (size_t i = 0; i < size(); ++i) events[i] = marks_[i].get();
  wait({events.data(), size()}, size(), doing);
}

void GpuGroup::mark() {
  for (size_t i = 0; i < size(); ++i) {
    gpus_[i]->select();
    gpus_[i]->check(gpus_[i]->module().record_event(marks_[i].get(), gpus_[i]->queue().stream), "record an event");
  }
  first().select();
}

// Until the first `needed` are reached; of the others only failures count.
void GpuGroup::wait(std::span<void* const> events, size_t needed, const std::string& doing) {
  if (size() == 1) return first().check(first().module().wait_for_event(events[0]), doing);
  constexpr int kSpins = 1000;
  for (int tries = 0;; ++tries) {
    bool ready = true;
    for (size_t i = 0; i < size(); ++i) {
      const int status = gpus_[i]->module().event_reached(events[i]);
      if (status == kCudaNotReady) ready = ready && i >= needed;
      else if (status != 0) fail(i, status, doing);
    }
    if (ready) return;
    if (tries < kSpins) continue;
    if (tries % kSpins == 0)
      if (const std::string why = sums_->failed(); !why.empty()) {
        abort();
        throw Error(ErrorKind::resources, {.where = where_ + ": " + name(), .what = "the GPUs could not " + doing, .got = why});
      }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
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
