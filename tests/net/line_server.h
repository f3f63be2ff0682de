// A server and a client of lines, on src/net alone: what a line says comes back. A client that does not read makes the server wait:
// it stops reading when its answers fill their bound, and ends a stream that keeps it waiting too long.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/net/stream_set.h"
#include "src/net/tls_keys.h"
#include "tests/net/run_until.h"

namespace perigee::test {

inline bool pass(UvLoop& loop, uint64_t ms) {
  const uint64_t end = loop.now_ns() + ms * 1'000'000;
  return run_until(loop, [&] { return loop.now_ns() > end; });
}

inline std::unique_ptr<const TlsCredentials> key(uint8_t number) {
  PreSharedKey shared{.identity = "key " + std::to_string(number)};
  shared.bytes.fill(number);
  return std::make_unique<const PreSharedKeys>(shared);
}

class LineStream;

class LineUser {
 public:
  virtual ~LineUser() = default;
  virtual void on_line(LineStream& stream, std::string_view line) = 0;
  virtual void on_writable(LineStream& stream) = 0;
};

// The protocol: lines of at most kMaxLine bytes. The first one proves that a plain-text peer speaks it.
class LineStream final : public Stream {
 public:
  static constexpr size_t kMaxLine = 4096;

  LineStream(std::shared_ptr<StreamShared> shared, LineUser& user, StreamKeeper* keeper, uint64_t id, std::string address)
      : Stream(std::move(shared), keeper, id, std::move(address)), user_(user) {}

  bool say(std::string_view line, size_t bound = SIZE_MAX) {
    const std::string text = std::string(line) + "\n";
    return write(std::as_bytes(std::span(text)), {}, bound);
  }
  void refuse() { end(StreamEnd::protocol_error, "a word that is not spoken here", true); }

 private:
  bool alive() const { return state() == State::open || state() == State::handshake; }
  std::span<std::byte> room() override { return std::span(bytes_).subspan(size_); }
  void received(size_t count) override {
    size_ += count;
    size_t begin = 0;
    for (size_t at = 0; at < size_ && alive(); ++at) {
      if (bytes_[at] != std::byte{'\n'}) continue;
      if (state() == State::handshake) become_open();
      if (!alive()) return;
      user_.on_line(*this, {reinterpret_cast<const char*>(bytes_.data()) + begin, at - begin});
      begin = at + 1;
    }
    std::copy(bytes_.begin() + static_cast<std::ptrdiff_t>(begin), bytes_.begin() + static_cast<std::ptrdiff_t>(size_), bytes_.begin());
    size_ -= begin;
    if (size_ == bytes_.size() && alive()) end(StreamEnd::protocol_error, "a line without an end");
  }
  void writable() override { user_.on_writable(*this); }

  LineUser& user_;
  std::array<std::byte, kMaxLine> bytes_;
  size_t size_ = 0;
};

// The parts of both sides: a set of streams, and a record of what happened.
class LineNode : public StreamUser, public LineUser {
 public:
  explicit LineNode(UvLoop& used_loop, std::unique_ptr<const TlsCredentials> credentials = {}, StreamLimits limits = {})
      : loop(used_loop), shared(std::make_shared<StreamShared>(loop)), streams(loop, limits, *this) {
    if (credentials) shared->tls = std::make_unique<TlsContext>(std::move(credentials));
  }

  std::unique_ptr<Stream> make_stream(StreamKeeper* keeper, uint64_t id, std::string address) override {
    return std::make_unique<LineStream>(shared, *this, keeper, id, std::move(address));
  }
  void on_ready(Stream& stream) override { ready.push_back(stream.id()); }
  void on_lost(uint64_t id, StreamEnd why, const std::string& detail) override { lost[id] = {why, detail}; }
  void on_timer(uint64_t timer) override { timers.push_back(timer); }
  void on_line(LineStream& stream, std::string_view line) override { lines[stream.id()].emplace_back(line); }
  void on_writable(LineStream&) override {}

  LineStream& at(uint64_t id) { return *static_cast<LineStream*>(streams.find(id)); }
  uint64_t dial(const std::string& address) { return streams.connect(address, loop.now_ns() + 10 * kSecond); }

  UvLoop& loop;
  std::vector<uint64_t> ready, timers;
  std::map<uint64_t, std::pair<StreamEnd, std::string>> lost;
  std::map<uint64_t, std::vector<std::string>> lines;
  std::shared_ptr<StreamShared> shared;
  StreamSet streams;
};

class EchoServer final : public LineNode {
 public:
  static constexpr size_t kBound = size_t{256} << 10;  // of answers that wait

  using LineNode::LineNode;

  // A stream whose answers wait so long is ended.
  uint64_t patience_ms = 10'000;
  size_t most_waiting = 0, echoed = 0, pauses = 0;

  void on_line(LineStream& stream, std::string_view line) override {
    if (line == "bad") return stream.refuse();
    // One write of what was received already may exceed the bound; nothing more is read until half of it has gone.
    stream.say(line);
    ++echoed;
    most_waiting = std::max(most_waiting, stream.waiting_bytes());
    if (stream.waiting_bytes() < kBound || held_[stream.id()]) return;
    held_[stream.id()] = true;
    ++pauses;
    stream.pause_reading();
    stream.call_writable_below(kBound / 2);
    streams.set_deadline(stream.id(), loop.now_ns() + patience_ms * 1'000'000);
  }
  void on_writable(LineStream& stream) override {
    held_[stream.id()] = false;
    streams.clear_deadline(stream.id());
    stream.resume_reading();
  }

 private:
  std::map<uint64_t, bool> held_;
};

}  // namespace perigee::test
