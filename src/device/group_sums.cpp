// Sums over the GPUs of a process: by NCCL, and without it.
#include <algorithm>

#include "src/core/warning.h"
#include "src/device/gpu_group.h"

namespace perigee {
namespace {

class NcclSums final : public GroupSums {
 public:
  NcclSums(std::span<const std::unique_ptr<Gpu>> gpus, std::string* why) : calls_(*gpus[0]->module().groups) {
    const CudaModule& module = gpus[0]->module();
    if (const char* missing = calls_.missing()) {
      *why = std::string("NCCL cannot be used: ") + missing;
      return;
    }
    name_ = std::string("NCCL ") + module.library(CudaLibrary::nccl).version;
    std::vector<int> devices;
    for (const auto& gpu : gpus) devices.push_back(gpu->index());
    if (const char* said = calls_.open(devices.data(), static_cast<int>(devices.size()), &group_)) {
      *why = name_ + " could not begin: " + said;
      group_ = nullptr;
    }
  }
  ~NcclSums() override {
    const char* const said = group_ ? calls_.close(group_) : nullptr;
    if (said) warn(name_ + " could not end and is left as it is: " + said);
  }
  bool works() const { return group_ != nullptr; }

  std::string name() const override { return name_; }
  bool can_be_captured() const override { return calls_.can_be_captured(); }

  void queue(std::span<const GroupSum> sums, std::span<const GpuHandle> streams) override {
    sums_.clear();
    streams_.clear();
    for (const GroupSum& sum : sums) sums_.push_back({sum.at.data(), sum.elements, sum.dtype});
    for (const GpuHandle& stream : streams) streams_.push_back(stream.get());
    if (const char* said = calls_.sum(group_, sums_.data(), static_cast<int>(sums_.size()), streams_.data()))
      throw Error(ErrorKind::resources, {.where = name_, .what = "the GPUs could not add up what they computed", .got = said});
  }

  std::string failed() override {
    const char* const said = calls_.failed(group_);
    return said ? name_ + ": " + said : "";
  }
  void abort() noexcept override { calls_.abort(group_); }

 private:
  const CudaGroups& calls_;
  void* group_ = nullptr;
  std::string name_;
  std::vector<CudaGroupSum> sums_;  // of one call
  std::vector<void*> streams_;
};

// Each GPU owns a part of what is summed: it fetches the others' parts, adds them up, and the others fetch the sum. A sum's bits are those
// of its elements alone: they do not depend on how it is cut.
class CopiedSums final : public GroupSums {
 public:
  explicit CopiedSums(std::span<const std::unique_ptr<Gpu>> gpus) : scratch_(gpus.size()) {
    for (const auto& gpu : gpus) gpus_.push_back(gpu.get());
    for (Gpu* gpu : gpus_) {
      gpu->select();
      for (Gpu* peer : gpus_)
        if (peer != gpu) gpu->check(gpu->module().enable_peer_access(gpu->index(), peer->index()), "reach " + peer->name());
      for (auto* events : {&ready_, &summed_, &done_}) events->push_back(gpu->event());
    }
  }

  std::string name() const override { return "copies between the GPUs"; }
  bool can_be_captured() const override { return false; }
  void abort() noexcept override { gpus_[0]->module().shorten_timeouts(); }  // copies that wait for a GPU that is lost cannot be ended
  size_t scratch() const override { return scratch_[0].bytes(); }

  void queue(std::span<const GroupSum> sums, std::span<const GpuHandle> streams) override {
    for (const GroupSum& sum : sums) queue_one(sum, streams);
  }

 private:
  struct Part {
    size_t begin = 0, bytes = 0;
  };
  // The part of the i-th GPU, on 256-byte borders.
  Part part_of(const GroupSum& sum, size_t i) const {
    const size_t bytes = static_cast<size_t>(sum.elements) * dtype_bytes(sum.dtype);
    return {begin_of(bytes, i), begin_of(bytes, i + 1) - begin_of(bytes, i)};
  }
  size_t begin_of(size_t bytes, size_t i) const { return i == gpus_.size() ? bytes : bytes * i / gpus_.size() / 256 * 256; }

  void mark(const std::vector<GpuHandle>& events, std::span<const GpuHandle> streams) {
    for (size_t i = 0; i < gpus_.size(); ++i) {
      gpus_[i]->select();
      gpus_[i]->check(gpus_[i]->module().record_event(events[i].get(), streams[i].get()), "record an event");
    }
  }
  void wait_for_all(size_t i, const std::vector<GpuHandle>& events, std::span<const GpuHandle> streams) {
    for (size_t other = 0; other < gpus_.size(); ++other)
      if (other != i)
        gpus_[i]->check(gpus_[i]->module().stream_waits(streams[i].get(), events[other].get()), "wait for " + gpus_[other]->name());
  }
  void fetch(size_t i, void* to, size_t from_gpu, const void* from, size_t bytes, void* stream) {
    gpus_[i]->check(gpus_[i]->module().copy_between(to, gpus_[i]->index(), from, gpus_[from_gpu]->index(), bytes, stream),
                    "copy from " + gpus_[from_gpu]->name());
  }

  void queue_one(const GroupSum& sum, std::span<const GpuHandle> streams) {
    const size_t n = gpus_.size();
    mark(ready_, streams);
    for (size_t i = 0; i < n; ++i) {
      const Part part = part_of(sum, i);
      if (part.bytes == 0) continue;
      gpus_[i]->select();
      wait_for_all(i, ready_, streams);
      const size_t stride = (part.bytes + 255) / 256 * 256;
      make_room(i, stride * (n - 1), streams[i].get());
      CudaCombineCall call{.n = static_cast<int>(n),
                           .to = at(sum, i, part.begin),
                           .elements = static_cast<int64_t>(part.bytes / dtype_bytes(sum.dtype)),
                           .dtype = sum.dtype};
      size_t slot = 0;
      for (size_t other = 0; other < n; ++other) {
        call.parts[other] = at(sum, other, part.begin);
        if (other == i) continue;
        std::byte* const copy = scratch_[i].data() + slot++ * stride;
        fetch(i, copy, other, call.parts[other], part.bytes, streams[i].get());
        call.parts[other] = copy;
      }
      CudaQueue queue = gpus_[i]->queue();
      queue.stream = streams[i].get();
      queue.counters = nullptr, queue.workspace = nullptr, queue.workspace_bytes = 0;  // of the GPU's own stream
      gpus_[i]->module().steps->combine(call, queue);
      gpus_[i]->check(queue.status, "add up what the GPUs computed");
    }
    mark(summed_, streams);
    for (size_t i = 0; i < n; ++i) {
      gpus_[i]->select();
      wait_for_all(i, summed_, streams);
      for (size_t other = 0; other < n; ++other) {
        const Part part = part_of(sum, other);
        if (other != i) fetch(i, at(sum, i, part.begin), other, at(sum, other, part.begin), part.bytes, streams[i].get());
      }
    }
    mark(done_, streams);  // no GPU may change what another one still reads
    for (size_t i = 0; i < n; ++i) {
      gpus_[i]->select();
      wait_for_all(i, done_, streams);
    }
  }

  static std::byte* at(const GroupSum& sum, size_t i, size_t byte) { return static_cast<std::byte*>(sum.at[i]) + byte; }

  void make_room(size_t i, size_t bytes, void* stream) {
    if (scratch_[i].bytes() >= bytes) return;
    gpus_[i]->check(gpus_[i]->module().wait_for_stream(stream), "finish sums");
    scratch_[i] = {};
    scratch_[i] = gpus_[i]->allocate(bytes, "sums over the GPUs");
  }

  std::vector<Gpu*> gpus_;
  std::vector<GpuMemory> scratch_;
  std::vector<GpuHandle> ready_, summed_, done_;
};

}  // namespace

std::unique_ptr<GroupSums> nccl_sums(std::span<const std::unique_ptr<Gpu>> gpus, std::string* why) {
  auto sums = std::make_unique<NcclSums>(gpus, why);
  return sums->works() ? std::move(sums) : nullptr;
}

std::unique_ptr<GroupSums> copied_sums(std::span<const std::unique_ptr<Gpu>> gpus) { return std::make_unique<CopiedSums>(gpus); }

}  // namespace perigee
