// Images of a replica on their way between two nodes: cut into frames by who sends, checked and put together by who receives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"
#include "cluster/replica/replica.h"

namespace perigee {

inline constexpr uint64_t kMaxImageBytes = uint64_t{1} << 36;
inline constexpr size_t kMaxTransfers = 64;  // at a time, of one node

// Sends as much as each receiver's queue takes, and goes on when it has room again. Through a slow link in small pieces: a heartbeat waits
// for the piece before it.
class ImageSender {
 public:
  static constexpr size_t kFirstPiece = 64 << 10, kLeastPiece = 32 << 10;  // smaller ones would only queue up in the transport

  ImageSender(Transport& transport, Clock& clock, size_t most = kMaxTransfers) : transport_(transport), clock_(clock), most_(most) {}
  // `header` names job and generation. False: too many transfers already.
  bool add(PeerId peer, const FrameHeader& header, Image first, SharedBytes bytes);
  void on_writable(PeerId peer);
  void forget(PeerId peer);
  bool idle() const { return transfers_.empty(); }

 private:
  struct Transfer {
    PeerId peer;
    FrameHeader header;
    Image image;
    SharedBytes bytes;
    size_t piece = kFirstPiece;
    uint64_t sent_ns = 0;  // when the last piece was taken
  };
  void adapt(Transfer& transfer) const;
  bool push(Transfer& transfer);  // true: all is sent

  Transport& transport_;
  Clock& clock_;
  size_t most_;
  std::vector<Transfer> transfers_;
};

// One image coming in. Memory grows with what has come, never with what was claimed.
class ImageReceiver {
 public:
  enum class Progress { unexpected, more, complete, failed };

  void expect(PeerId from, uint64_t request);
  void cancel() { from_ = 0; }
  bool active() const { return from_ != 0; }
  PeerId from() const { return from_; }
  uint64_t request() const { return request_; }
  Progress on_image(PeerId from, Image& image, std::span<const std::byte> body);
  uint64_t total() const { return total_; }  // bytes that are to come, as claimed; 0: nothing has come yet

  // Once complete.
  int64_t round() const { return round_; }
  uint64_t hash() const { return hash_; }
  std::vector<LogEntry>& log() { return log_; }
  std::vector<std::byte>& bytes() { return bytes_; }
  uint64_t received() const { return bytes_.size(); }  // so far
  const std::string& why() const { return why_; }      // once failed

 private:
  PeerId from_ = 0;
  uint64_t request_ = 0, total_ = 0, hash_ = 0;
  int64_t round_ = -1;
  std::vector<LogEntry> log_;
  std::vector<std::byte> bytes_;
  std::string why_;
};

}  // namespace perigee
