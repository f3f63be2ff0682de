// A data set on a GPU: the fields that a model reads, of all examples, so that a batch is a list of indices and is gathered there.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/data/source.h"
#include "src/device/gpu.h"

namespace perigee {

class ResidentData {
 public:
  // Null when the source gives other bytes in another epoch (SourceTraits::fixed), or would take more than `room` or than half of the
  // memory that is free.
  static std::unique_ptr<ResidentData> load(Gpu& gpu, const DataSource& source, std::span<const int> fields, uint64_t seed, size_t room);

  // Rows `ids` (the device's address) of each of `fields` to `to`; null: not wanted.
  void gather(Gpu& gpu, const int64_t* ids, int64_t n, std::span<std::byte* const> to, CudaQueue& queue) const;
  size_t bytes() const;

 private:
  struct Column {
    size_t row_bytes = 0;
    GpuMemory values;
  };
  std::vector<Column> columns_;
};

}  // namespace perigee
