// Buffers of kChunkBytes for chunks that came before what they are to be added to. They are kept from one exchange to the next, so
// that a steady run neither allocates nor faults pages in. Owned by the loop thread.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

namespace perigee {

class ChunkPool {
 public:
  // A buffer's number; data(number) is 64-byte aligned. std::bad_alloc without memory.
  int acquire();
  int try_acquire() noexcept;  // -1 without memory
  void release(int buffer);
  std::byte* data(int buffer) const { return buffers_[static_cast<size_t>(buffer)].get(); }
  size_t in_use() const { return buffers_.size() - free_.size() - empty_.size(); }
  size_t bytes_kept() const;

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<std::byte[], Free>> buffers_;
  std::vector<int> free_;   // with memory, the last used last: it is still in the cache
  std::vector<int> empty_;  // numbers whose memory was given back
};

}  // namespace perigee
