// The codecs' kernels on a GPU, where there is one: what tests/cuda checks on the host, and sizes that only a GPU is fast enough for.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/device/cuda_module.h"
#include "tests/cuda/cuda_trial.h"

namespace perigee {
namespace {

const CudaModule* gpu = nullptr;

// Device memory with guards of a few words behind it, which must not change.
template <class T>
class DeviceArray {
 public:
  DeviceArray(const char* name, size_t count, size_t = 0) : DeviceArray(name, std::vector<T>(count)) {}
  DeviceArray(const char* name, std::span<const T> values, size_t = 0) : name_(name), count_(values.size()) {
    std::vector<std::byte> bytes(values.size_bytes() + kGuard, kGuardByte);
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes(), bytes.begin());
    EXPECT_EQ(gpu->allocate(bytes.size(), &memory_), 0);
    EXPECT_EQ(gpu->upload(memory_, bytes.data(), bytes.size()), 0);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    read();
    gpu->release(memory_);
  }

  T* data() const { return static_cast<T*>(memory_); }
  std::vector<T> read() const {
    std::vector<std::byte> bytes(count_ * sizeof(T) + kGuard);
    const int status = gpu->download(bytes.data(), memory_, bytes.size());
    EXPECT_EQ(status, 0) << gpu->message(status);
    EXPECT_TRUE(std::all_of(bytes.end() - kGuard, bytes.end(), [](std::byte byte) { return byte == kGuardByte; })) << name_;
    const auto* const values = reinterpret_cast<const T*>(bytes.data());
    return {values, values + count_};
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr std::byte kGuardByte{0xab};

  const char* name_;
  size_t count_;
  void* memory_ = nullptr;
};

struct DeviceMemory {
  template <class T>
  using Array = DeviceArray<T>;
};

class GpuCodec : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    int count = 0;
    gpu = cuda_module(&why);
    if (gpu == nullptr) GTEST_SKIP() << "no CUDA module: " << why;
    if (const int status = gpu->device_count(&count); status != 0) GTEST_SKIP() << "no GPU: " << gpu->message(status);
    if (count == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(GpuCodec, MakesTheBitsOfTheHost) {
  std::vector<CodecSegment> segments = codec_segments();
  if (std::getenv("PERIGEE_GPU_BRIEF") == nullptr) segments.push_back({1, 3'000'001, 0});
  for (const std::string& spec : codec_specs())
    for (const CodecSegment& segment : segments) {
      expect_the_hosts_bits<DeviceMemory>(spec, segment, *gpu->codecs);
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace perigee
