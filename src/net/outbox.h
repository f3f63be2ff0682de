// The queue of bytes to be sent on one stream, in blocks that are used again. A block is handed to libuv when it is full, or at once while
// nothing is under way; small frames that come meanwhile are gathered.
#pragma once

#include <uv.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace perigee {

struct SendBlock;

// Free blocks, shared by all connections of a transport.
class SendBlocks {
 public:
  SendBlocks();
  ~SendBlocks();
  std::unique_ptr<SendBlock> take();
  void give_back(std::unique_ptr<SendBlock> block);

 private:
  std::vector<std::unique_ptr<SendBlock>> free_;
};

class Outbox {
 public:
  // `sent` is called when a write has ended, well or not: a good moment to ask queued() and error().
  Outbox(std::shared_ptr<SendBlocks> blocks, void (*sent)(void* context), void* context);
  ~Outbox();
  void attach(uv_stream_t* stream) { stream_ = stream; }

  // Sends what the system takes at once, straight from the caller's memory; copies the rest.
  void send(std::span<const std::byte> head, std::span<const std::byte> body);
  // Copies; flush() when there is no more to come for now.
  void put(std::span<const std::byte> bytes);
  // Likewise, but the caller writes the bytes there, at most kReserve of them, and says how many.
  static constexpr size_t kReserve = size_t{64} << 10;
  std::byte* reserve(size_t bytes);
  void commit(size_t bytes);
  void flush();
  void finish();  // hands everything to libuv, because nothing more will come

  size_t queued() const { return flying_bytes() + (open_ ? open_bytes() : 0); }
  int error() const { return error_; }  // of libuv; once there is one, all that is put is dropped

 private:
  size_t flying_bytes() const;
  size_t open_bytes() const;
  void submit(bool try_first);
  void ended(std::unique_ptr<SendBlock> block, int status);

  std::shared_ptr<SendBlocks> blocks_;
  void (*sent_)(void*);
  void* context_;
  uv_stream_t* stream_ = nullptr;
  std::unique_ptr<SendBlock> open_;  // being filled
  int flying_ = 0;                   // blocks that libuv has
  int error_ = 0;
};

}  // namespace perigee
