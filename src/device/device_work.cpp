#include "src/device/device_work.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>

namespace perigee {
namespace {

// In line unless branches save more than a measurement errs.
constexpr double kWorthIt = 0.98;
constexpr int kReplays = 5, kMostRounds = 9;
constexpr double kSecondsEnough = 0.05, kLong = 2e-3;  // steps that long are timed one by one

}  // namespace

GpuBranches::GpuBranches(Gpu& gpu, int branches) : gpu_(gpu) {
  gpu.select();
  const CudaModule& module = gpu.module();
  constexpr size_t kCounters = kCudaCounters * sizeof(uint32_t);
  while (count() < branches) {
    GpuHandle workspace;
    if (gpu.queue().workspace_bytes > 0) {
      void* memory = nullptr;
      if (module.allocate(gpu.queue().workspace_bytes, &memory) != 0) break;
      workspace = {memory, module.release};
    }
    void *counters = nullptr, *stream = nullptr;
    if (module.allocate(kCounters, &counters) != 0) break;
    counters_.emplace_back(counters, module.release);
    gpu.check(module.clear(counters, kCounters, gpu.queue().stream), "clear memory");
    gpu.wait();
    gpu.check(module.create_stream(&stream), "open a stream");
    streams_.emplace_back(stream, module.destroy_stream);
    workspaces_.push_back(std::move(workspace));
  }
}

// Handles and plans of libraries are the device queue's: they take a stream and a workspace with each call.
CudaQueue GpuBranches::queue_of(int branch) const {
  CudaQueue queue = gpu_.queue();
  if (branch == 0) return queue;
  queue.stream = streams_[static_cast<size_t>(branch) - 1].get();
  queue.workspace = workspaces_[static_cast<size_t>(branch) - 1].get();
  queue.counters = static_cast<uint32_t*>(counters_[static_cast<size_t>(branch) - 1].get());
  return queue;
}

GpuHandle GpuBranches::capture(const std::vector<DeviceWork>& work) {
  BranchedCapture capture(*this, work, count(), nullptr);
  return gpu_.capture([&] { capture.advance(); });
}

// Event i is reached when piece i is done, the last one when the graph begins.
BranchedCapture::BranchedCapture(GpuBranches& branches, const std::vector<DeviceWork>& work, int most, void* apart)
    : of_(branches), work_(work), waited_for_(work.size()) {
  std::vector<StepAccess> accesses;
  for (const DeviceWork& piece : work) accesses.push_back(piece.access);
  const int own = std::min(most, branches.count());
  order_ = order_steps(accesses, own);
  while (of_.events_.size() <= work.size()) of_.events_.push_back(of_.gpu_.event());
  const auto used = static_cast<size_t>(std::max(order_.branches, 1));
  for (size_t b = 0; b < used; ++b) {
    const bool is_apart = b == static_cast<size_t>(own);
    queues_.push_back(of_.queue_of(is_apart ? 0 : static_cast<int>(b)));
    if (!is_apart) continue;
    queues_.back().stream = apart;
    queues_.back().counters = nullptr, queues_.back().workspace = nullptr;  // the first branch's, which runs beside it
    queues_.back().workspace_bytes = 0;
  }
  captured_.assign(used, false);
  last_.assign(used, -1);
  for (size_t i = 0; i < work.size(); ++i) {
    for (const int before : order_.places[i].waits) waited_for_[static_cast<size_t>(before)] = true;
    last_[static_cast<size_t>(order_.places[i].branch)] = static_cast<int>(i);
  }
  for (size_t b = 1; b < used; ++b)
    if (last_[b] >= 0) waited_for_[static_cast<size_t>(last_[b])] = true;
}

void BranchedCapture::record(size_t event, size_t branch) {
  of_.gpu_.check(of_.gpu_.module().record_event(of_.events_[event].get(), queues_[branch].stream), "record an event");
}

void BranchedCapture::wait(size_t branch, size_t event) {
  of_.gpu_.check(of_.gpu_.module().stream_waits(queues_[branch].stream, of_.events_[event].get()), "let a branch wait");
}

// A branch is part of the capture from its first wait on.
void BranchedCapture::come_in(size_t piece, size_t branch) {
  const std::vector<int>& waits = order_.places[piece].waits;
  if (branch > 0 && !captured_[branch] && waits.empty()) wait(branch, work_.size());
  captured_[branch] = true;
  for (const int before : waits) wait(branch, static_cast<size_t>(before));
}

bool BranchedCapture::advance() {
  if (next_ == 0 && queues_.size() > 1) record(work_.size(), 0);
  const auto branch_of = [&](size_t piece) { return static_cast<size_t>(order_.places[piece].branch); };
  if (next_ > 0 && work_[next_ - 1].access.apart && waited_for_[next_ - 1]) record(next_ - 1, branch_of(next_ - 1));
  while (next_ < work_.size()) {
    const size_t piece = next_++, branch = branch_of(piece);
    come_in(piece, branch);
    if (work_[piece].access.apart) return true;
    assert(queues_[branch].counters != nullptr);
    work_[piece].queue(queues_[branch]);
    of_.gpu_.check_queue(queues_[branch], work_[piece].what);
    if (waited_for_[piece]) record(piece, branch);
  }
  for (size_t b = 1; b < last_.size(); ++b)
    if (last_[b] >= 0) wait(0, static_cast<size_t>(last_[b]));
  return false;
}

void queue_in_line(Gpu& gpu, const std::vector<DeviceWork>& work, bool blocking) {
  for (const DeviceWork& piece : work) {
    piece.queue(gpu.queue());
    gpu.check_queue(piece.what);
    if (blocking) gpu.check(gpu.module().wait_for_stream(gpu.queue().stream), "run " + piece.what);
  }
}

GpuHandle faster_on_branches(Gpu& gpu, GpuBranches& branches, const std::vector<DeviceWork>& work) {
  GpuHandle wide = branches.capture(work);
  const GpuHandle line = gpu.capture([&] { queue_in_line(gpu, work, false); });
  const auto now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  const auto seconds_of = [&](const GpuHandle& graph, int replays) {
    const double begin = now();
    for (int i = 0; i < replays; ++i) gpu.launch(graph);
    gpu.wait();
    return (now() - begin) / replays;
  };
  double of_line = std::numeric_limits<double>::infinity(), of_wide = of_line;
  const double end = now() + kSecondsEnough;
  seconds_of(line, 1);  // the first launch also brings the graph over
  const int replays = seconds_of(wide, 1) < kLong ? kReplays : 1;
  for (int round = 0; round < kMostRounds && (round == 0 || now() < end); ++round) {
    of_line = std::min(of_line, seconds_of(line, replays));
    of_wide = std::min(of_wide, seconds_of(wide, replays));
  }
  return of_wide < kWorthIt * of_line ? std::move(wide) : GpuHandle();
}

}  // namespace perigee
