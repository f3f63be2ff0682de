// A replica's codec on the GPU that it trains on (cluster/codec/cuda_codec.h): values, residual and sums stay there; what crosses are payloads, by
// way of pinned memory. Payloads and residuals are the host codec's, bit for bit, so that replicas of both kinds train together.
#pragma once

#include "cluster/codec/codec_memory.h"
#include "cluster/codec/cuda_codec.h"
#include "cluster/exchange/payload_pool.h"
#include "cluster/replica/device_rounds.h"
#include "cluster/replica/replica_codec.h"

namespace perigee {

// Floats of a device that are copied there, by work on its stream.
class DeviceFloats {
 public:
  DeviceFloats() = default;
  DeviceFloats(Gpu& gpu, size_t count, const std::string& purpose);  // zero
  DeviceFloats(DeviceFloats&&) = default;
  DeviceFloats& operator=(DeviceFloats&&) = default;
  DeviceFloats& operator=(const DeviceFloats& other);
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }  // null: there are none
  size_t size() const { return count_; }

 private:
  Gpu* gpu_ = nullptr;
  GpuMemory memory_;
  size_t count_ = 0;
};

class DeviceCodec final : public ReplicaCodec {
 public:
  // `kernels` are of `codec`.
  DeviceCodec(DeviceRounds& rounds, std::unique_ptr<Codec> codec, std::unique_ptr<CudaCodec> kernels, const ReplicaCodecSetup& setup);

  bool on_device() const override { return true; }
  size_t bound() const override { return codec_->bound(segment_); }
  double residual_square() override;
  SharedBytes encode(const CodedValues& values, std::span<float> room, int64_t round, const StepProgress& when, int workers) override;
  void settle(bool counted) override { memory_.settle(counted); }
  void drop() override { memory_.drop(); }
  void overtaken() override { memory_.overtaken(); }
  std::optional<size_t> add(std::span<const WeightedPayload> payloads, std::span<float> room) override;
  void take_sum(Take how, float* block) override;

 private:
  struct Pinned {
    GpuHandle memory, copied;
    bool in_use = false;
  };
  struct Runs {
    GpuMemory table;
    int64_t count = 0, longest = 0;
    const CudaRun* data() const { return reinterpret_cast<const CudaRun*>(table.data()); }
  };
  CudaStream stream() const { return static_cast<CudaStream>(gpu_.queue().stream); }
  Runs place(const std::vector<CudaRun>& runs);
  bool queue_add(const WeightedPayload& payload, size_t number);

  DeviceRounds& rounds_;
  Gpu& gpu_;
  std::unique_ptr<Codec> codec_;
  std::unique_ptr<CudaCodec> kernels_;
  CodecSegment segment_;
  uint64_t seed_, stream_;
  size_t block_bytes_;
  Runs encoded_runs_, trained_runs_;  // of the block: what is encoded, and what a sum goes into
  BasicCodecMemory<DeviceFloats> memory_;
  DeviceFloats packed_;  // what is encoded, or the sum
  GpuMemory body_, scratch_, record_, refused_;
  GpuHandle record_read_;  // pinned
  Pinned pinned_[2];       // by turns
  std::vector<uint32_t> refused_read_;
  PayloadPool payloads_;
};

// Device memory, apart from rounds of any size.
size_t device_codec_bytes(const Codec& codec, const CudaCodec& kernels, const ReplicaCodecSetup& setup);

// Null where the codec has no kernels: then it is untouched, and `why` says it.
std::unique_ptr<ReplicaCodec> make_device_codec(DeviceRounds& rounds, std::unique_ptr<Codec>& codec, const ReplicaCodecSetup& setup,
                                                std::string* why);

}  // namespace perigee
