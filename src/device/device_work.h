// The work of one captured graph, as pieces that say what memory they read and write: pieces that do not touch each other's may run beside
// one another. So a step's weight gradients run beside its data gradients, its judgement beside backward.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/device/gpu.h"
#include "src/device/step_order.h"

namespace perigee {

struct DeviceWork {
  std::string what;  // for an error: "layer 'conv1' (1 of 6), op 'conv2d'"
  StepAccess access;
  std::function<void(CudaQueue&)> queue;
};

// Streams beside a device's own, each with a workspace for libraries and counters. While it lives what was captured on it may run.
class GpuBranches {
 public:
  // `branches` at least 1, the device's own stream among them. Fewer where there is no memory for so many workspaces.
  GpuBranches(Gpu& gpu, int branches);

  int count() const { return static_cast<int>(streams_.size()) + 1; }
  // A graph of the work, pieces side by side where their memory allows it.
  GpuHandle capture(const std::vector<DeviceWork>& work);

 private:
  friend class BranchedCapture;
  CudaQueue queue_of(int branch) const;

  Gpu& gpu_;
  std::vector<GpuHandle> streams_, workspaces_, counters_;
  std::vector<GpuHandle> events_;  // as many as any graph needed
};

// Work on its way into a graph that the device's own stream captures. The caller queues the pieces that are apart (StepAccess), on a
// stream of the same device: each as soon as what it follows is done, beside the rest.
class BranchedCapture {
 public:
  // At most `most` branches. `apart`: the stream of such pieces, null where there are none. `branches` and the work must outlive this.
  BranchedCapture(GpuBranches& branches, const std::vector<DeviceWork>& work, int most, void* apart);
  // Queues the pieces before the next one that is apart, whose stream then waits for what it follows: true, and the caller queues it. False:
  // all is queued, and the device's own stream waits for all of it.
  bool advance();

 private:
  void record(size_t event, size_t branch);
  void wait(size_t branch, size_t event);
  void come_in(size_t piece, size_t branch);

  GpuBranches& of_;
  const std::vector<DeviceWork>& work_;
  StepOrder order_;
  std::vector<CudaQueue> queues_;            // by branch
  std::vector<bool> waited_for_, captured_;  // by piece; by branch
  std::vector<int> last_;                    // by branch: its last piece, -1
  size_t next_ = 0;
};

// One piece after the other on the device's own stream; `blocking` waits for each and names the one that fails.
void queue_in_line(Gpu& gpu, const std::vector<DeviceWork>& work, bool blocking);

// The graph of the work that runs faster: in line, or on `branches`. What the work does must not depend on how often it runs. Null: in line
// is as fast.
GpuHandle faster_on_branches(Gpu& gpu, GpuBranches& branches, const std::vector<DeviceWork>& work);

}  // namespace perigee
