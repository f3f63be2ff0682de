// A job's average of the weights (src/train/weight_average.h) on the first GPU, where it takes each step's numbers without a copy to the host
// and with the host's bits. Host and device each have a copy, and one of them may be newer.
#pragma once

#include <vector>

#include "src/model/device/device_model.h"
#include "src/train/weight_average.h"

namespace perigee {

class DeviceAverage {
 public:
  // Both must outlive this. At first the host's numbers are the newer ones.
  DeviceAverage(DeviceModel& model, WeightAverage& average);
  static size_t bytes_for(const Params& params);

  // Queued behind the steps that are queued: the device's numbers count for `share`, 1 for the first, which is copied. Nothing happens where
  // `stopped`, a word of the device, is not 0 by then.
  void add(double share, const int32_t* stopped);
  void to_host();  // waits for the device and downloads what it changed
  void host_changed() { newer_ = Newer::host; }
  size_t bytes() const { return parameters_.bytes() + states_.bytes(); }

 private:
  enum class Newer { neither, host, device };
  struct Run {  // of states of one type that lie side by side, in bytes from the first
    size_t begin = 0;
    int64_t elements = 0;
    Dtype dtype = Dtype::f32;
  };

  DeviceModel& model_;
  WeightAverage& average_;
  GpuMemory parameters_, states_;
  std::vector<Run> averaged_;       // floating
  std::vector<CudaCommit> copied_;  // counters
  Newer newer_ = Newer::host;
};

}  // namespace perigee
