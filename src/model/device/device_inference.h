// A model forward on a GPU: what Inference is on the host. A batch's work is captured once for each size and buffer as a CUDA graph; there are
// two buffers, so that a batch is read, and goes over, while the one before is computed.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/model/device/device_model.h"

namespace perigee {

class DeviceInference {
 public:
  static constexpr uint64_t kInFlight = 2;

  // `fields`: names and types of what the plan reads, in the order of queue(). `model` must outlive this.
  // `more`: outputs beside the main one, of which `layers` are to be asked for.
  DeviceInference(DeviceModel& model, bool with_loss, std::vector<NetworkInput> fields, std::vector<ModelOutput> more = {},
                  std::vector<std::string> layers = {});
  ~DeviceInference();

  bool sliceable() const { return set_.slices().sliceable; }  // examples do not depend on each other
  // The largest batch, `most` or a power of two below it, for which there is memory.
  int64_t batch_that_fits(int64_t most);

  // Copies `count` rows of each field and queues the work; at most kInFlight are in flight.
  void queue(const std::vector<const std::byte*>& fields, int64_t count);
  uint64_t in_flight() const { return queued_ - taken_; }
  // In the plan's types and orders of memory. `loss` has rank 0 where there is none.
  struct Rows {
    View output, loss;
    std::vector<View> more;
    int64_t count = 0;
  };
  Rows take();    // waits for the oldest; valid until the next queue()
  void forget();  // waits for all and drops them

 private:
  struct Captured {
    GpuHandle graph;
    Rows rows;
  };
  struct Slot {
    GpuHandle from_host, to_host, copied, done;  // pinned; events
    size_t from_bytes = 0, to_bytes = 0;
    GpuMemory device;
    std::map<int64_t, Captured> graphs;  // by count
    Rows rows;                           // of the host, when done
  };
  struct Layout {  // of a slot's buffers
    std::vector<size_t> fields, more;
    size_t inputs = 0, loss = 0, results = 0;  // the output comes first among the results, then the loss and what else is given
  };
  Layout layout_of(int64_t count) const;
  void make_room(Slot& slot, int64_t count);
  void settle(Slot& slot, int64_t count);
  PlanRun& bound(Slot& slot, int64_t count);
  void queue_work(Slot& slot, int64_t count, bool blocking);
  void run(Slot& slot, int64_t count);

  DeviceModel& model_;
  Gpu& gpu_;
  std::vector<NetworkInput> fields_;
  std::vector<ModelOutput> more_;
  bool with_loss_, blocking_;
  size_t output_row_, loss_row_;
  PlanSet set_;
  DevicePlans plans_;
  std::array<Slot, kInFlight> slots_;
  std::set<int64_t> settled_;  // counts whose kernels are known to run
  int64_t generation_ = 0, largest_ = 0;
  uint64_t queued_ = 0, taken_ = 0;
};

}  // namespace perigee
