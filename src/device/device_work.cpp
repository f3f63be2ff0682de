#include "src/device/device_work.h"

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
  std::vector<StepAccess> accesses;
  for (const DeviceWork& piece : work) accesses.push_back(piece.access);
  const StepOrder order = order_steps(accesses, count());
  while (events_.size() <= work.size()) events_.push_back(gpu_.event());
  return gpu_.capture([&] { queue(work, order); });
}

// Event i is reached when piece i is done, the last one when the graph begins.
void GpuBranches::queue(const std::vector<DeviceWork>& work, const StepOrder& order) {
  const CudaModule& module = gpu_.module();
  const auto branches = static_cast<size_t>(order.branches);
  std::vector<bool> waited_for(work.size()), joined(branches);
  std::vector<int> last(branches, -1);
  for (size_t i = 0; i < work.size(); ++i) {
    for (const int before : order.places[i].waits) waited_for[static_cast<size_t>(before)] = true;
    last[static_cast<size_t>(order.places[i].branch)] = static_cast<int>(i);
  }
  for (size_t b = 1; b < branches; ++b) waited_for[static_cast<size_t>(last[b])] = true;

  std::vector<CudaQueue> queues;
  for (size_t b = 0; b < branches; ++b) queues.push_back(queue_of(static_cast<int>(b)));
  const auto record = [&](size_t event, size_t branch) {
    gpu_.check(module.record_event(events_[event].get(), queues[branch].stream), "record an event");
  };
  const auto wait = [&](size_t branch, size_t event) {
    gpu_.check(module.stream_waits(queues[branch].stream, events_[event].get()), "let a branch wait");
  };
  if (branches > 1) record(work.size(), 0);
  for (size_t i = 0; i < work.size(); ++i) {
    const auto branch = static_cast<size_t>(order.places[i].branch);
    if (branch > 0 && !joined[branch] && order.places[i].waits.empty()) wait(branch, work.size());  // part of the capture from here on
    joined[branch] = true;
    for (const int before : order.places[i].waits) wait(branch, static_cast<size_t>(before));
    work[i].queue(queues[branch]);
    gpu_.check_queue(queues[branch], work[i].what);
    if (waited_for[i]) record(i, branch);
  }
  for (size_t b = 1; b < branches; ++b) wait(0, static_cast<size_t>(last[b]));
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
