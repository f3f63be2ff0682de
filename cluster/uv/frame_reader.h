// Cuts a stream of bytes into frames, in place: bytes are received straight into its memory, and a frame is a view of it. The memory
// is used again; it grows only to what a checked header announces. The body of a large Chunk may be received elsewhere (transport.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"

namespace perigee {

class FrameReader {
 public:
  // A smaller frame costs less to copy than to ask for.
  static constexpr size_t kPlacedBytes = size_t{32} << 10;

  // The head of a Chunk that may be received elsewhere, or is; else empty. A reader that wants that calls place() before every space().
  std::span<const std::byte> chunk_head() const;
  // The current answer of the head's owner. The first answer decides where the body goes; when a later one differs, the frame is dropped.
  void place(const Placement& where);
  // Room for the next bytes, never empty. Not beyond the end of a large frame that is under way, so that none of the next one has to be
  // moved.
  std::span<std::byte> space();
  void filled(size_t bytes);  // so many were put there

  enum class Next {
    more,            // no whole frame is here
    frame,           // `*frame` and header() are valid until the next call of space()
    placed,          // likewise, but `*frame` is a chunk's head alone; its body() is where place() said
    broken,          // what comes is no frame; for good
    other_protocol,  // header() has the version; for good
  };
  Next next(std::span<const std::byte>* frame);

  const FrameHeader& header() const { return header_; }
  bool header_seen() const { return frame_bytes_ != 0; }  // of the frame under way
  size_t waiting() const { return end_ - begin_; }        // bytes of a frame under way
  std::span<const std::byte> peek() const { return {memory_.get() + begin_, end_ - begin_}; }
  std::span<const std::byte> body() const { return {place_.memory, placed_bytes_}; }  // of the frame that was placed
  size_t capacity() const { return capacity_; }

 private:
  enum class Body { undecided, here, placed, dropped };  // of the frame under way: where it goes
  void make_room(size_t bytes);
  bool placeable() const { return header_.type == MessageType::chunk && frame_bytes_ >= kPlacedBytes; }
  size_t body_bytes() const { return frame_bytes_ - kChunkHeadBytes; }

  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0, end_ = 0;
  size_t frame_bytes_ = 0;  // of the frame under way, once its header is here and good
  FrameHeader header_;
  Body body_ = Body::undecided;
  Placement place_;
  size_t placed_bytes_ = 0;  // have come of a body that is placed or dropped
};

}  // namespace perigee
