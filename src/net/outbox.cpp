#include "src/net/outbox.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <type_traits>

namespace perigee {
namespace {

constexpr size_t kBlockBytes = size_t{132} << 10;  // two take a chunk's frame with what TLS adds to it
constexpr size_t kMaxFree = 64;

uv_buf_t buffer(std::span<const std::byte> bytes) {  // libuv only reads it
  return uv_buf_init(const_cast<char*>(reinterpret_cast<const char*>(bytes.data())), static_cast<unsigned>(bytes.size()));
}

}  // namespace

struct SendBlock {
  uv_write_t request;
  size_t size = 0;
  std::array<std::byte, kBlockBytes> bytes;
};

static_assert(std::is_standard_layout_v<SendBlock>);

SendBlocks::SendBlocks() { free_.reserve(kMaxFree); }
SendBlocks::~SendBlocks() = default;

std::unique_ptr<SendBlock> SendBlocks::take() {
  if (free_.empty()) return std::make_unique_for_overwrite<SendBlock>();
  auto block = std::move(free_.back());
  free_.pop_back();
  block->size = 0;
  return block;
}

void SendBlocks::give_back(std::unique_ptr<SendBlock> block) {
  if (free_.size() < kMaxFree) free_.push_back(std::move(block));
}

Outbox::Outbox(std::shared_ptr<SendBlocks> blocks, void (*sent)(void*), void* context)
    : blocks_(std::move(blocks)), sent_(sent), context_(context) {}

Outbox::~Outbox() { assert(flying_ == 0); }

size_t Outbox::flying_bytes() const { return flying_ > 0 ? uv_stream_get_write_queue_size(stream_) : 0; }
size_t Outbox::open_bytes() const { return open_->size; }

void Outbox::send(std::span<const std::byte> head, std::span<const std::byte> body) {
  assert(stream_);
  if (error_) return;
  size_t sent = 0;
  if (flying_ == 0 && (!open_ || open_->size == 0)) {
    const uv_buf_t buffers[2] = {buffer(head), buffer(body)};
    const int taken = uv_try_write(stream_, buffers, body.empty() ? 1 : 2);
    if (taken < 0 && taken != UV_EAGAIN) {
      error_ = taken;
      return;
    }
    sent = taken < 0 ? 0 : static_cast<size_t>(taken);
  }
  if (sent == head.size() + body.size()) return;
  if (sent < head.size()) put(head.subspan(sent));
  put(body.subspan(std::min(body.size(), sent > head.size() ? sent - head.size() : 0)));
  if (flying_ == 0) submit(false);
}

void Outbox::put(std::span<const std::byte> bytes) {
  assert(stream_);
  while (!bytes.empty() && !error_) {
    if (!open_) open_ = blocks_->take();
    const size_t count = std::min(bytes.size(), kBlockBytes - open_->size);
    std::memcpy(open_->bytes.data() + open_->size, bytes.data(), count);
    open_->size += count;
    bytes = bytes.subspan(count);
    if (open_->size == kBlockBytes) submit(flying_ == 0);
  }
}

std::byte* Outbox::reserve(size_t bytes) {
  assert(stream_ && bytes <= kReserve);
  static_assert(kReserve <= kBlockBytes);
  if (open_ && bytes > kBlockBytes - open_->size) {
    if (error_) open_->size = 0;
    else submit(flying_ == 0);
  }
  if (!open_) open_ = blocks_->take();
  return open_->bytes.data() + open_->size;
}

void Outbox::commit(size_t bytes) {
  assert(open_ && bytes <= kBlockBytes - open_->size);
  open_->size += bytes;
}

void Outbox::flush() {
  if (open_ && open_->size > 0 && flying_ == 0 && !error_) submit(true);
}

void Outbox::finish() {
  if (open_ && open_->size > 0 && !error_) submit(flying_ == 0);
}

void Outbox::submit(bool try_first) {
  assert(open_ && open_->size > 0);
  size_t sent = 0;
  if (try_first) {
    const uv_buf_t all = buffer({open_->bytes.data(), open_->size});
    const int taken = uv_try_write(stream_, &all, 1);
    if (taken < 0 && taken != UV_EAGAIN) error_ = taken;
    if (taken > 0) sent = static_cast<size_t>(taken);
    if (error_ || sent == open_->size) {
      open_->size = 0;
      return;
    }
  }
  auto block = std::move(open_);
  block->request.data = this;
  const uv_buf_t rest = buffer({block->bytes.data() + sent, block->size - sent});
  const auto done = [](uv_write_t* request, int status) {
    // The request is the block's first member, so that one address is both.
    static_cast<Outbox*>(request->data)->ended(std::unique_ptr<SendBlock>(reinterpret_cast<SendBlock*>(request)), status);
  };
  const int status = uv_write(&block->request, stream_, &rest, 1, done);
  if (status != 0) {
    error_ = status;
    return;
  }
  ++flying_;
  [[maybe_unused]] const SendBlock* owned_by_libuv = block.release();
}

void Outbox::ended(std::unique_ptr<SendBlock> block, int status) {
  assert(flying_ > 0);
  --flying_;
  if (status != 0 && !error_) error_ = status;
  blocks_->give_back(std::move(block));
  if (!error_) flush();
  sent_(context_);
}

}  // namespace perigee
