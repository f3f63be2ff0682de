// The GPUs of this process that train one model together, and sums over them: by NCCL, or, where there is none or `deterministic` asks for a
// fixed order, by copies from memory to memory that meet in the tree in which a CPU's threads meet. One thread works with a group; after
// each call of it the first GPU is selected.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/device/gpu.h"

namespace perigee {

// at[i] is GPU i's buffer, which gets the sum of all; of i64 it is the maximum.
struct GroupSum {
  std::vector<void*> at;
  int64_t elements = 0;
  Dtype dtype = Dtype::f32;
};

// How a group adds up. Sums run on a stream of each GPU beside its queue.
class GroupSums {
 public:
  virtual ~GroupSums() = default;
  virtual std::string name() const = 0;
  virtual bool can_be_captured() const = 0;
  virtual void queue(std::span<const GroupSum> sums, std::span<const GpuHandle> streams) = 0;
  virtual size_t scratch() const { return 0; }  // bytes of our memory on the first GPU
  virtual std::string failed() { return ""; }   // what broke beside what a call said
  virtual void abort() noexcept {}              // what is queued ends; nothing else is asked for any more
};

class GpuGroup {
 public:
  // Error(usage) for a device that is not there, or is named twice; `where` begins it.
  GpuGroup(std::span<const int> devices, const std::string& where, bool deterministic);
  ~GpuGroup();

  size_t size() const { return gpus_.size(); }
  Gpu& operator[](size_t i) const { return *gpus_[i]; }
  Gpu& first() const { return *gpus_[0]; }
  std::string name() const;  // "cuda:0", "cuda:0-3", "cuda:0,2"
  // "NCCL 2.28.7"; "copies between the GPUs: NCCL is not there". Empty for one GPU.
  std::string sums() const;
  bool copies() const { return size() > 1 && !why_not_nccl_.empty(); }
  size_t free_bytes();  // of the GPU that has least
  size_t room();        // and with what we hold
  bool can_be_captured() const { return sums_ && sums_->can_be_captured(); }

  // Bytes of GPU i's memory that the sums took beside ours, as far as seen: NCCL's buffers.
  size_t bytes_of_sums(size_t i) const { return bytes_of_sums_.empty() ? 0 : bytes_of_sums_[i]; }
  size_t scratch() const { return sums_ ? sums_->scratch() : 0; }
  // Adds up whatever lies there, and waits: the first sum of a kind connects the GPUs, which takes memory and time.
  void connect(std::span<const std::vector<GroupSum>> sums);

  // Behind what the queues hold now; what they get from now on runs beside it, until join().
  void add_up(std::span<const GroupSum> sums);
  void queue_sums(std::span<const GroupSum> sums);  // alone: on beside(), behind what that waits for
  void join();
  void* beside(size_t i) const { return streams_[i].get(); }  // the stream on which GPU i's sums run
  // Every wait looks at all GPUs: when one fails, or is not done in PERIGEE_CUDA_TIMEOUT seconds (600), the others would wait for it for
  // ever, so they are made to end. So does Gpu::wait() of each.
  void wait(std::span<void* const> events, const std::string& doing);  // one of each GPU
  void wait_for(size_t i, void* event, const std::string& doing);      // of GPU i
  void wait(const std::string& doing);                                 // for all that was queued
  void abort() noexcept;

 private:
  void choose_sums(bool deterministic);
  template <class Act>
  void watching_memory(Act act);
  void mark();
  void fail(size_t i, int status, const std::string& doing);
  [[noreturn]] void give_up(const std::string& doing, const std::string& why, const std::string& hint);
  void check_kinds() const;
  void poll(std::span<void* const> events, size_t only, const std::string& doing);

  std::string where_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<GpuHandle> streams_, forked_, joined_, marks_;
  std::string why_not_nccl_;
  std::unique_ptr<GroupSums> sums_;  // null: of one GPU
  std::vector<size_t> bytes_of_sums_;
  bool aborted_ = false;
};

// `why`: null where NCCL can be used.
std::unique_ptr<GroupSums> nccl_sums(std::span<const std::unique_ptr<Gpu>> gpus, std::string* why);
std::unique_ptr<GroupSums> copied_sums(std::span<const std::unique_ptr<Gpu>> gpus);

// Error(usage) for a list in which one is named twice, or of more than kMostGpus.
void check_devices(std::span<const int> devices, const std::string& where);
// "cuda:0-3": for messages and what a user reads.
std::string device_list(std::span<const int> devices);

}  // namespace perigee
