#include "cluster/uv/connection.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kLargeBody = size_t{32} << 10;  // the first of this size makes a connection within one machine ask for shared memory

constexpr std::array<uint8_t, 4> kPlainFrame = {'P', 'R', 'G', 'E'};

bool starts_with(std::span<const std::byte> bytes, std::span<const uint8_t> start) {
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

}  // namespace

Connection::Connection(std::shared_ptr<ConnectionShared> shared, FrameUser& user, StreamKeeper* keeper, PeerId id, std::string address)
    : Stream(shared, keeper, id, std::move(address)), shared_(std::move(shared)), user_(user) {}

Connection::~Connection() = default;

bool Connection::send(std::span<const std::byte> head, std::span<const std::byte> body) {
  assert(head.size() >= kHeaderBytes && head.size() + body.size() <= kMaxFrameBytes);
  if (state() != State::open || send_failed()) return false;
  if (body.size() >= kLargeBody && !link_tried_) offer_memory();
  if (!link_ || !link_->writing()) return send_on_socket(head, body);
  if (!link_->send(head, body, shared_->queue_bytes)) {
    blocked_ = true;
    ++shared_->counters.queue_full;
    return false;
  }
  ++shared_->counters.frames_out;
  shared_->counters.bytes_out += head.size() + body.size();
  return true;
}

bool Connection::send_on_socket(std::span<const std::byte> head, std::span<const std::byte> body) {
  const bool large = body.size() >= kLargeBody;
  if (large) flush();  // so that what is left is under way, and writable() follows
  const size_t waiting = waiting_bytes(), size = head.size() + body.size();
  // A large body waits where it is until the last one is with the system: a copy of it would only cost time.
  const bool waits = large && waiting > 0;
  const size_t bound = body.empty() ? 4 * shared_->queue_bytes : shared_->queue_bytes;
  if (waits || (waiting > 0 && waiting + size > bound)) {
    blocked_ = true;
    call_writable_below(waits ? 1 : shared_->queue_bytes / 2);
    ++shared_->counters.queue_full;
    return false;
  }
  return put_on_socket(head, body);
}

bool Connection::put_on_socket(std::span<const std::byte> head, std::span<const std::byte> body) {
  if (!write(head, body) && !send_failed()) return false;
  ++shared_->counters.frames_out;
  shared_->counters.bytes_out += head.size() + body.size();
  return !send_failed();
}

void Connection::writable() {
  if (std::exchange(blocked_, false)) user_.on_writable(*this);
}

// Either language: the refusal of the wrong one is an answer.
bool Connection::may_begin_with(std::span<const std::byte> bytes) const {
  return may_be_handshake(bytes) || std::memcmp(bytes.data(), kPlainFrame.data(), std::min(bytes.size(), kPlainFrame.size())) == 0;
}

// A peer with a secret at a port without one, or the other way round: the refusal is in the language that it speaks.
bool Connection::greeted(std::span<const std::byte> bytes) {
  static constexpr std::array<uint8_t, 2> kTlsHandshake = {0x16, 0x03};
  static constexpr std::array<uint8_t, 7> kTlsAlert = {0x15, 0x03, 0x03, 0, 2, 2, 40};  // fatal: handshake failure
  if (!has_tls() && starts_with(bytes, kTlsHandshake)) {
    write(std::as_bytes(std::span(kTlsAlert)));
    end(StreamEnd::unauthenticated, "it has a secret, this side has none", true);
    return false;
  }
  if (has_tls() && starts_with(bytes, kPlainFrame)) {
    write(encode(Refuse{.kind = static_cast<uint16_t>(ErrorKind::authentication),
                        .what = "this address is only for those who have the cluster's secret",
                        .hint = "give the secret file: --secret FILE"},
                 {}));
    end(StreamEnd::unauthenticated, "it has no secret", true);
    return false;
  }
  return true;
}

// For what is received next: the body of a chunk goes where it belongs, if its owner says so.
std::span<std::byte> Connection::room() {
  if (const auto head = reader_.chunk_head(); !head.empty()) reader_.place(state() == State::open ? user_.place(*this, head) : Placement{});
  return reader_.space();
}

void Connection::received(size_t bytes) {
  reader_.filled(bytes);
  std::span<const std::byte> frame;
  while (true) {
    const FrameReader::Next next = reader_.next(&frame);
    if (next == FrameReader::Next::broken) {
      ++shared_->counters.bad_frames;
      return end(state() == State::handshake ? StreamEnd::unauthenticated : StreamEnd::protocol_error,
                 "what it sends is no frame of perigee's");
    }
    if (next == FrameReader::Next::other_protocol) return refuse_protocol();
    // Plain text from outside: the first good header is all the proof there is.
    if (state() == State::handshake && (next == FrameReader::Next::frame || reader_.header_seen())) become_open();
    if (!alive() || next == FrameReader::Next::more) return;
    if (next == FrameReader::Next::frame ? !take(reader_.header(), frame) : !take_placed(frame, reader_.body())) return;
  }
}

// False: no more.
bool Connection::take(const FrameHeader& header, std::span<const std::byte> frame) {
  if (is_link_message(header.type)) {
    if (on_link_frame(header, frame.subspan(kHeaderBytes))) return true;
    ++shared_->counters.bad_frames;
    end(StreamEnd::protocol_error, "what it says about shared memory cannot be");
    return false;
  }
  ++shared_->counters.frames_in;
  shared_->counters.bytes_in += frame.size();
  user_.on_frame(*this, frame);
  return state() == State::open;
}

bool Connection::take_placed(std::span<const std::byte> head, std::span<const std::byte> body) {
  ++shared_->counters.frames_in;
  shared_->counters.bytes_in += head.size() + body.size();
  user_.on_placed(*this, head, body);
  return state() == State::open;
}

void Connection::refuse_protocol() {
  ++shared_->counters.other_protocol;
  const std::string theirs = "protocol " + std::to_string(reader_.header().protocol);
  const std::string ours = "protocol " + std::to_string(kProtocol) + " (perigee " PERIGEE_VERSION ")";
  const Refuse refusal{.kind = static_cast<uint16_t>(ErrorKind::cluster),
                       .what = "the two sides do not speak the same version",
                       .got = theirs,
                       .expected = ours,
                       .hint = "install the same version on all machines"};
  write(encode(refusal, {}));
  end(StreamEnd::protocol_error, "it speaks " + theirs + ", this is " + ours, true);
}

}  // namespace perigee
