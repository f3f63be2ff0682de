// A connection's way from its socket into shared memory: the offer, the answer, and when each direction changes over.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "cluster/uv/connection.h"

namespace perigee {

void Connection::say(MessageType what, std::span<const std::byte> payload) {
  std::array<std::byte, kHeaderBytes + SharedLink::kOfferBytes> frame;
  assert(payload.size() <= SharedLink::kOfferBytes);
  write_header({.type = what, .length = static_cast<uint32_t>(payload.size())}, std::span(frame).first<kHeaderBytes>());
  std::copy(payload.begin(), payload.end(), frame.begin() + kHeaderBytes);
  // However much is queued: a switch that was not said would leave the other side waiting for ever. There are at most four of these.
  put_on_socket(std::span(frame).first(kHeaderBytes + payload.size()), {});
}

void Connection::offer_memory() {
  link_tried_ = true;
  const int socket = shared_->share_memory ? descriptor() : -1;
  if (socket < 0 || !SharedLink::same_machine(socket)) return;
  auto link = std::make_unique<SharedLink>(loop(), *this);
  SharedLink::Offer offer;
  if (!link->offer(&offer)) return;
  link_ = std::move(link);
  link_offered_ = true;
  say(MessageType::shared_offer, offer);
}

// At the socket's end: what was said before it. False: the connection has ended over that.
bool Connection::drain_other() {
  if (link_) link_->drain();
  return alive();
}

// False: not what can come now.
bool Connection::on_link_frame(const FrameHeader& header, std::span<const std::byte> payload) {
  if (state() != State::open || (link_ && link_->reading())) return false;
  switch (header.type) {
    case MessageType::shared_offer: {
      SharedLink::Offer offer;
      if (payload.size() != offer.size() || (link_ && !link_offered_)) return false;
      std::copy(payload.begin(), payload.end(), offer.begin());
      // Both have offered at once: the side that connected has its way.
      if (link_offered_ && !inbound()) return true;
      link_tried_ = true, link_offered_ = false;
      if (!shared_->share_memory) {
        say(MessageType::shared_refused);
        return true;
      }
      link_ = std::make_unique<SharedLink>(loop(), *this);
      link_->answer(offer);
      return true;
    }
    case MessageType::shared_switch:
      if (!payload.empty() || !link_ || !link_->mapped()) return false;
      if (!link_->writing()) {  // the answer has the memory: our own last word here
        say(MessageType::shared_switch);
        link_->begin_writing();
      }
      ++shared_->counters.shared_memory;
      link_->begin_reading();
      return true;
    case MessageType::shared_refused:
      if (!payload.empty() || !link_offered_) return false;
      link_.reset();
      link_offered_ = false;
      return true;
    default: return false;
  }
}

void Connection::on_shared_ready() {
  if (state() != State::open) return;
  say(MessageType::shared_switch);
  link_->begin_writing();
}

void Connection::on_shared_refused() {
  if (state() == State::open) say(MessageType::shared_refused);
}

bool Connection::on_shared_frame(std::span<const std::byte> frame) {
  if (state() != State::open) return false;
  FrameHeader header;
  if (frame.size() < kHeaderBytes || !read_header(frame, &header) || header.protocol != kProtocol ||
      kHeaderBytes + header.length != frame.size() || is_link_message(header.type)) {
    on_shared_broken();
    return false;
  }
  return take(header, frame);
}

void Connection::on_shared_writable() {
  if (state() == State::lingering) return finish();
  if (state() == State::open) writable();
}

void Connection::on_shared_broken() {
  if (state() != State::open) return;
  ++shared_->counters.bad_frames;
  end(StreamEnd::protocol_error, "what it puts into shared memory is no frame of perigee's");
}

}  // namespace perigee
