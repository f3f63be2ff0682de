#include "cluster/exchange/topology/chunk_pool.h"

#include <cassert>
#include <new>

#include "cluster/protocol/message.h"

namespace perigee {
namespace {

constexpr size_t kKept = 256;  // free buffers that keep their memory: 64 MB

}  // namespace

int ChunkPool::acquire() {
  if (!free_.empty()) {
    const int buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  std::unique_ptr<std::byte[], Free> memory(static_cast<std::byte*>(std::aligned_alloc(64, kChunkBytes)));
  if (!memory) throw std::bad_alloc();
  if (!empty_.empty()) {
    const int buffer = empty_.back();
    empty_.pop_back();
    buffers_[static_cast<size_t>(buffer)] = std::move(memory);
    return buffer;
  }
  buffers_.push_back(std::move(memory));
  free_.reserve(buffers_.size());
  empty_.reserve(buffers_.size());
  return static_cast<int>(buffers_.size()) - 1;
}

int ChunkPool::try_acquire() noexcept {
  try {
    return acquire();
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

void ChunkPool::release(int buffer) {
  assert(buffer >= 0 && static_cast<size_t>(buffer) < buffers_.size() && buffers_[static_cast<size_t>(buffer)]);
  if (free_.size() < kKept) {
    free_.push_back(buffer);
    return;
  }
  buffers_[static_cast<size_t>(buffer)].reset();
  empty_.push_back(buffer);
}

size_t ChunkPool::bytes_kept() const { return (buffers_.size() - empty_.size()) * kChunkBytes; }

}  // namespace perigee
