#include "cluster/uv/frame_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace perigee {
namespace {

constexpr size_t kSmall = size_t{16} << 10;  // to begin with, and what small frames are gathered in
// Read at once while the next frame's kind is not known: small, because what comes of a body with its head has to be copied.
constexpr size_t kFirst = size_t{8} << 10;
constexpr size_t kKept = size_t{1} << 20;  // more is given back when it is empty
constexpr size_t kPage = size_t{4} << 10;

}  // namespace

// At least `bytes` from the begin of what is here.
void FrameReader::make_room(size_t bytes) {
  if (bytes <= capacity_ - begin_) return;
  const size_t here = end_ - begin_;
  if (bytes <= capacity_) {
    std::memmove(memory_.get(), memory_.get() + begin_, here);
  } else {
    const size_t capacity = std::max(kSmall, (bytes + kPage - 1) / kPage * kPage);
    auto memory = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (here) std::memcpy(memory.get(), memory_.get() + begin_, here);
    memory_ = std::move(memory);
    capacity_ = capacity;
  }
  begin_ = 0, end_ = here;
}

std::span<const std::byte> FrameReader::chunk_head() const {
  if (frame_bytes_ == 0 || !placeable() || body_ == Body::here || body_ == Body::dropped || waiting() < kChunkHeadBytes) return {};
  return peek().first(kChunkHeadBytes);
}

void FrameReader::place(const Placement& where) {
  assert(!chunk_head().empty());
  if (body_ == Body::placed) {
    if (where != place_) body_ = Body::dropped;
    return;
  }
  body_ = where.memory ? Body::placed : Body::here;
  if (!where.memory) return;
  place_ = where;
  placed_bytes_ = waiting() - kChunkHeadBytes;
  assert(placed_bytes_ < body_bytes());
  std::memcpy(place_.memory, memory_.get() + begin_ + kChunkHeadBytes, placed_bytes_);
  end_ = begin_ + kChunkHeadBytes;
}

std::span<std::byte> FrameReader::space() {
  const size_t here = end_ - begin_;
  if (body_ == Body::placed) return {place_.memory + placed_bytes_, body_bytes() - placed_bytes_};
  if (body_ == Body::dropped) {
    make_room(kSmall);
    return {memory_.get() + end_, std::min(kSmall - here, body_bytes() - placed_bytes_)};
  }
  if (here == 0) {
    begin_ = end_ = 0;
    if (capacity_ > kKept) memory_.reset(), capacity_ = 0;
  }
  if (!chunk_head().empty()) body_ = Body::here;  // it was not requested
  const bool known = frame_bytes_ != 0 && (body_ == Body::here || !placeable());
  const size_t frame = known ? frame_bytes_ : std::max(kHeaderBytes, kChunkHeadBytes);
  assert(here < frame);
  make_room(frame);
  if (capacity_ - end_ < kHeaderBytes) make_room(capacity_);
  const size_t rest = frame - here;
  const size_t room = known && rest >= kFirst ? rest : std::min(kFirst, capacity_ - end_);
  assert(room > 0 && end_ + room <= capacity_);
  return {memory_.get() + end_, room};
}

void FrameReader::filled(size_t bytes) {
  if (body_ == Body::placed || body_ == Body::dropped) {
    placed_bytes_ += bytes;
    assert(placed_bytes_ <= body_bytes());
    return;
  }
  assert(bytes <= capacity_ - end_);
  end_ += bytes;
}

FrameReader::Next FrameReader::next(std::span<const std::byte>* frame) {
  if (frame_bytes_ == 0) {
    const auto here = peek();
    if (here.size() < kHeaderBytes) {
      // A stranger's first bytes are judged as soon as they are there.
      constexpr uint32_t magic = kMagic;
      return std::memcmp(here.data(), &magic, std::min(here.size(), sizeof magic)) == 0 ? Next::more : Next::broken;
    }
    if (!read_header(here, &header_)) return Next::broken;
    if (header_.protocol != kProtocol) return Next::other_protocol;
    frame_bytes_ = kHeaderBytes + header_.length;
    assert(frame_bytes_ <= kMaxFrameBytes);
  }
  const Body where = body_;
  if (where == Body::placed || where == Body::dropped) {
    if (placed_bytes_ < body_bytes()) return Next::more;
    *frame = peek().first(kChunkHeadBytes);
    assert(waiting() == kChunkHeadBytes);
    begin_ = end_;
    frame_bytes_ = 0, body_ = Body::undecided;
    return where == Body::placed ? Next::placed : Next::more;
  }
  if (end_ - begin_ < frame_bytes_) return Next::more;
  *frame = {memory_.get() + begin_, frame_bytes_};
  begin_ += std::exchange(frame_bytes_, 0);
  body_ = Body::undecided;
  return Next::frame;
}

}  // namespace perigee
