#include "cluster/uv/shared_ring.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace perigee {
namespace {

// As long as a line, so that a chunk, which has a head of one line, is added from where it lies without loads across lines.
struct alignas(Ring::kLine) RecordHead {
  uint32_t size = 0;  // of what follows
  RecordKind kind = RecordKind::skip;
};

constexpr size_t lines(size_t bytes) { return (bytes + Ring::kLine - 1) / Ring::kLine * Ring::kLine; }

}  // namespace

Ring Ring::in(std::byte* memory, size_t capacity) {
  assert((capacity & (capacity - 1)) == 0 && capacity >= 4096 && reinterpret_cast<uintptr_t>(memory) % kLine == 0);
  return {.control = reinterpret_cast<RingControl*>(memory), .bytes = {memory + sizeof(RingControl), capacity}};
}

// An empty ring begins anew at its start: what goes through then stays in few lines, which both sides still have in their caches.
bool RingWriter::put(RecordKind kind, std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t size = head.size() + body.size(), capacity = ring_.bytes.size();
  assert(size <= max_record());
  const size_t record = lines(sizeof(RecordHead) + size);
  read_ = std::max(read_, ring_.control->read.load(std::memory_order_acquire));
  if (read_ > written_) return false;  // more than was written: the other side has broken it, and nothing more goes in
  size_t at = written_ & (capacity - 1);
  if (at != 0 && read_ == written_) {
    ring_.control->restart.store(written_, std::memory_order_relaxed);
    read_ = written_ += capacity - at;  // nothing lies there, so all of it is free
    at = 0;
  }
  const size_t skip = at + record > capacity ? capacity - at : 0;
  if (written_ + skip + record - read_ > capacity) return false;
  std::byte* out = ring_.bytes.data() + at;
  if (skip) {
    const RecordHead rest{.size = static_cast<uint32_t>(skip - sizeof(RecordHead)), .kind = RecordKind::skip};
    std::memcpy(out, &rest, sizeof rest);
    out = ring_.bytes.data();
  }
  const RecordHead record_head{.size = static_cast<uint32_t>(size), .kind = kind};
  std::memcpy(out, &record_head, sizeof record_head);
  if (!head.empty()) std::memcpy(out + sizeof record_head, head.data(), head.size());
  if (!body.empty()) std::memcpy(out + sizeof record_head + head.size(), body.data(), body.size());
  written_ += skip + record;
  ring_.control->written.store(written_, std::memory_order_release);
  return true;
}

bool RingWriter::must_wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return ring_.control->reader_sleeps.load(std::memory_order_relaxed) != 0 && ring_.control->reader_sleeps.exchange(0) != 0;
}

bool RingWriter::half_free() const {
  const uint64_t read = std::max(read_, ring_.control->read.load(std::memory_order_acquire));
  return written_ - read <= ring_.bytes.size() / 2;
}

bool RingWriter::wait() {
  ring_.control->writer_waits.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!half_free()) return true;
  ring_.control->writer_waits.store(0, std::memory_order_relaxed);
  return false;
}

RingReader::Next RingReader::next(RecordKind* kind, std::span<const std::byte>* record) {
  assert(current_ == 0);
  const size_t capacity = ring_.bytes.size();
  while (true) {
    const uint64_t written = ring_.control->written.load(std::memory_order_acquire);
    if (written == read_) return Next::none;
    size_t at = read_ & (capacity - 1);
    if (at != 0 && ring_.control->restart.load(std::memory_order_relaxed) == read_) {
      read_ += capacity - at;
      at = 0;
    }
    const uint64_t here = written - read_;
    if (here > capacity || here < Ring::kLine) return Next::broken;
    RecordHead head;  // a copy: the other side may change it under our eyes
    std::memcpy(&head, ring_.bytes.data() + at, sizeof head);
    const size_t size = lines(sizeof head + size_t{head.size});
    if (size > here || size > capacity - at) return Next::broken;
    if (head.kind == RecordKind::skip) {
      read_ += size;
      continue;
    }
    if (head.kind > RecordKind::last) return Next::broken;
    *kind = head.kind;
    *record = ring_.bytes.subspan(at + sizeof head, head.size);
    current_ = size;
    return Next::record;
  }
}

void RingReader::done() {
  assert(current_ > 0);
  read_ += current_;
  current_ = 0;
  ring_.control->read.store(read_, std::memory_order_release);
}

bool RingReader::must_wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (ring_.control->writer_waits.load(std::memory_order_relaxed) == 0) return false;
  if (ring_.control->written.load(std::memory_order_acquire) - read_ > ring_.bytes.size() / 2) return false;
  return ring_.control->writer_waits.exchange(0) != 0;
}

bool RingReader::wait() {
  ring_.control->reader_sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (ring_.control->written.load(std::memory_order_acquire) == read_) return true;
  ring_.control->reader_sleeps.store(0, std::memory_order_relaxed);
  return false;
}

}  // namespace perigee
