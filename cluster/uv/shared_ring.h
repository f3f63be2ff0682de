// A stream of records from one process to another through memory that both have mapped. One writer, one reader, no locks; a record is
// read where it lies. Nothing in the memory is believed: a reader checks every size against what can be, once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace perigee {

// At the start of the memory. A side that goes to sleep says so and looks once more; the other side sees that and wakes it.
struct RingControl {
  alignas(64) std::atomic<uint64_t> written;  // bytes since the beginning
  alignas(64) std::atomic<uint64_t> restart;  // from here the last time that the writer went to the ring's start; behind it lies nothing
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) std::atomic<uint32_t> reader_sleeps;
  alignas(64) std::atomic<uint32_t> writer_waits;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// One direction: a control block and a power of two of bytes.
struct Ring {
  static constexpr size_t kLine = 64;
  RingControl* control = nullptr;
  std::span<std::byte> bytes;

  static constexpr size_t memory_bytes(size_t capacity) { return sizeof(RingControl) + capacity; }
  static Ring in(std::byte* memory, size_t capacity);
  // The longest record: it fits when half of the ring is free, wherever the last one ended.
  size_t max_record() const { return bytes.size() / 4 - kLine; }
};

enum class RecordKind : uint32_t { skip = 0, whole = 1, part = 2, last = 3 };  // a whole frame, or parts of one

class RingWriter {
 public:
  RingWriter() = default;
  explicit RingWriter(Ring ring) : ring_(ring) {}
  // head followed by body. False: there is no room now.
  bool put(RecordKind kind, std::span<const std::byte> head, std::span<const std::byte> body = {});
  size_t max_record() const { return ring_.max_record(); }
  // The reader sleeps and has not been woken: wake it.
  bool must_wake();
  // Asks to be woken when half of the ring is free. False: it is already.
  bool wait();

 private:
  bool half_free() const;

  Ring ring_;
  uint64_t written_ = 0, read_ = 0;  // read_: as last seen, or behind what a restart left out
};

class RingReader {
 public:
  enum class Next { none, record, broken };

  RingReader() = default;
  explicit RingReader(Ring ring) : ring_(ring) {}
  // `*record` is valid until done().
  Next next(RecordKind* kind, std::span<const std::byte>* record);
  void done();
  // The writer waits for room and there is enough: wake it.
  bool must_wake();
  // Asks to be woken when something comes. False: something is there.
  bool wait();

 private:
  Ring ring_;
  uint64_t read_ = 0;
  uint64_t current_ = 0;  // bytes of the record that was handed out
};

}  // namespace perigee
