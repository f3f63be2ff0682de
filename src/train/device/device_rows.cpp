#include "src/train/device/device_rows.h"

#include <cassert>

#include "src/tensor/bytes.h"
#include "src/train/device/device_memory.h"

namespace perigee {

DeviceRows::DeviceRows(Gpu& gpu, const std::vector<CarriedSpec>& specs, int64_t rows) : gpu_(gpu), layout_(specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    now_.push_back(gpu.allocate(static_cast<size_t>(rows) * row_bytes(i), "what rows carry"));
    gpu.clear(now_.back().data(), now_.back().bytes());
  }
}

size_t DeviceRows::bytes_for(const std::vector<CarriedSpec>& specs, int64_t rows) {
  size_t sum = 0;
  for (const CarriedSpec& spec : specs) sum += device_bytes(static_cast<size_t>(rows) * byte_size(spec.row));
  return sum;
}

size_t DeviceRows::row_bytes(size_t i) const { return byte_size(layout_.specs[i].row); }

void DeviceRows::bind(PlanRun& run, int64_t first) const {
  for (size_t i = 0; i < now_.size(); ++i)
    if (const int input = run.plan().input_index(layout_.leaves[i]); input >= 0)
      run.set_input(input, now_[i].data() + static_cast<size_t>(first) * row_bytes(i));
}

void DeviceRows::add_commits(const PlanRun& run, int64_t first, StepAccess* access, std::vector<CudaCommit>* commits) const {
  for (size_t i = 0; i < now_.size(); ++i) {
    const int output = run.output_index(layout_.leaves[i]);
    if (output < 0) continue;
    const View& from = run.output(output);
    assert(from.contiguous() && from.dtype == layout_.specs[i].row.dtype);  // Context::carry_on copies it
    const size_t bytes = static_cast<size_t>(from.dims[0]) * row_bytes(i);
    std::byte* const to = now_[i].data() + static_cast<size_t>(first) * row_bytes(i);
    access->read(range_of(from.data, bytes));
    access->write(range_of(to, bytes));
    commits->push_back({to, from.data, static_cast<int64_t>(bytes)});
  }
}

void DeviceRows::clear(int64_t first, int64_t count) {
  for (size_t i = 0; i < now_.size(); ++i)
    gpu_.clear(now_[i].data() + static_cast<size_t>(first) * row_bytes(i), static_cast<size_t>(count) * row_bytes(i));
}

void DeviceRows::to_host(int64_t first, int64_t count, CarriedRows& rows) {
  for (size_t i = 0; i < now_.size(); ++i) {
    const size_t begin = static_cast<size_t>(first) * row_bytes(i);
    gpu_.download(rows.now(i).data() + begin, now_[i].data() + begin, static_cast<size_t>(count) * row_bytes(i));
  }
}

void DeviceRows::to_device(const CarriedRows& rows) {
  for (size_t i = 0; i < now_.size(); ++i) gpu_.upload(now_[i].data(), rows.now(i).data(), rows.now(i).size());
}

size_t DeviceRows::bytes() const {
  size_t sum = 0;
  for (const GpuMemory& memory : now_) sum += memory.bytes();
  return sum;
}

}  // namespace perigee
