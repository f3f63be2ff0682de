// One connection: its socket (TCP or Unix), TLS, what waits to be sent, and how it ends. A protocol derives from it: it says where
// received bytes go, and takes them there. What became of a stream is told to its keeper, never from within a call by the keeper.
#pragma once

#include <uv.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/net/loop.h"
#include "src/net/outbox.h"
#include "src/net/tls.h"

namespace perigee {

// Why a stream is over.
enum class StreamEnd : uint8_t { closed, reset, timed_out, refused, protocol_error, unauthenticated };

class Stream;

class StreamKeeper {
 public:
  virtual ~StreamKeeper() = default;
  virtual void on_ready(Stream& stream) = 0;  // it is open now
  // Nothing can be sent any more. What the other side said before it went may still come.
  virtual void on_send_failed(Stream& stream) = 0;
  // It is over; the stream may linger a while, to send what it has.
  virtual void on_end(Stream& stream, StreamEnd why, std::string detail) = 0;
  virtual void on_lingered(Stream& stream) = 0;  // now nothing is left to do
};

// The state that streams of one kind share. It outlives their keeper until the last of libuv's handles is closed.
struct StreamShared {
  explicit StreamShared(UvLoop& used_loop) : loop(used_loop), received(size_t{128} << 10) {}
  virtual ~StreamShared() = default;

  UvLoop& loop;
  std::unique_ptr<TlsContext> tls;  // null: plain text
  std::shared_ptr<SendBlocks> blocks = std::make_shared<SendBlocks>();
  std::vector<std::byte> received;  // TLS records on their way into a Tls
  uint64_t key_updates = 0, handshake_timeouts = 0, bad_records = 0;
};

class Stream : private TlsSink {
 public:
  // `handshake`: the other side has not proved itself yet, by TLS, or, with plain text from outside, by first words that the protocol
  // takes: become_open().
  enum class State { idle, connecting, handshake, open, lingering, closed };

  // `address`: of the other side, for people.
  Stream(std::shared_ptr<StreamShared> shared, StreamKeeper* keeper, uint64_t id, std::string address);
  ~Stream() override;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // The only way to end one: frees it when libuv has closed its handle. No callbacks follow.
  static void dispose(std::unique_ptr<Stream> stream);

  // How one begins; of libuv, 0 or an error. UV_EPROTO: what has come already is no peer's.
  int accept(uv_stream_t* server);
  int adopt(int descriptor);                               // connected already; never encrypted
  void connect(std::vector<sockaddr_storage> candidates);  // each in turn; errors come by on_end
  void connect_unix(std::string path);

  // Sends `head` and `body`, and keeps what the system does not take. False: nothing was taken, because more than `bound` bytes would
  // wait, and writable() follows when half of them are gone; or because the other side is gone. An empty queue takes anything.
  bool write(std::span<const std::byte> head, std::span<const std::byte> body = {}, size_t bound = SIZE_MAX);
  void call_writable_below(size_t bytes) { writable_below_ = bytes; }  // writable() follows once fewer bytes wait
  void flush() { outbox_.flush(); }                                    // what was put is then under way

  // A slow consumer reads no more for now, and the other side then has to wait. What has been received already still comes.
  void pause_reading();
  void resume_reading();

  // Sends what it has, says goodbye, waits until the other side has it. The caller sets a deadline for that.
  void linger();
  // Ends it for a reason that only the keeper knows: a deadline.
  void give_up();

  uint64_t id() const { return id_; }
  State state() const { return state_; }
  bool inbound() const { return inbound_; }
  bool encrypted() const { return encrypted_; }
  const std::string& address() const { return address_; }
  const sockaddr* remote() const { return reinterpret_cast<const sockaddr*>(&remote_); }
  size_t waiting_bytes() const { return outbox_.queued(); }  // to be sent
  bool send_failed() const { return outbox_.error() != 0; }
  bool spoke() const { return spoke_; }  // the other side, anything at all
  // It took more than a look: a handshake's arithmetic, or its place until a deadline.
  bool costly() const { return costly_; }

 protected:
  // Every TLS handshake begins like this. What does not is not worth a look by OpenSSL, nor an answer.
  static bool may_be_handshake(std::span<const std::byte> bytes) {
    return bytes[0] == std::byte{0x16} && (bytes.size() < 2 || bytes[1] == std::byte{3});
  }

  // ---- what a protocol does ----
  virtual std::span<std::byte> room() = 0;     // where the next bytes go; never empty
  virtual void received(size_t bytes) = 0;     // so many are there
  virtual void writable() = 0;                 // see write()
  virtual void heard() {}                      // something has come, perhaps no whole record; only when open
  virtual bool drain_other() { return true; }  // the other side has closed: takes what it said elsewhere. False: that ended the stream
  virtual bool holds_back() { return false; }  // a goodbye has to wait for finish()
  // Whether a peer may begin like this, by a look: at least one byte of what is on the line.
  virtual bool may_begin_with(std::span<const std::byte>) const { return true; }
  // The first bytes from outside, as they are on the line. False: it has ended the stream.
  virtual bool greeted(std::span<const std::byte>) { return true; }

  // ---- what it may call ----
  void become_open();
  void end(StreamEnd why, std::string detail = {}, bool politely = false);
  void finish();
  UvLoop& loop() const { return shared_->loop; }
  bool has_tls() const { return shared_->tls != nullptr; }  // for what comes from outside and goes there
  int descriptor();                                         // of a TCP connection; -1: none

 private:
  void put(std::span<const std::byte> bytes) override { outbox_.put(bytes); }
  std::byte* reserve(size_t bytes) override { return outbox_.reserve(bytes); }
  void commit(size_t bytes) override { outbox_.commit(bytes); }
  uv_stream_t* stream() { return &handle_.stream; }
  int set_up();
  int start_reading();
  void connect_next();
  void on_connect(int status);
  bool strange_at_once();
  void close_handle();
  void on_closed();
  void on_sent();
  void on_read(ssize_t count, std::span<std::byte> bytes);
  void receive_tls(std::span<const std::byte> bytes);
  std::string tls_detail() const;

  std::shared_ptr<StreamShared> shared_;
  StreamKeeper* keeper_;
  const uint64_t id_;
  std::string address_, path_;  // path_: of a Unix socket to connect to
  sockaddr_storage remote_{};
  State state_ = State::idle;
  bool inbound_ = false;
  bool encrypted_ = false;
  bool has_handle_ = false;
  bool heard_ = false, spoke_ = false;  // heard: by us
  bool costly_ = false;
  bool paused_ = false;
  size_t writable_below_ = 0;  // 0: writable() is not asked for
  uv_any_handle handle_{};
  uv_connect_t connect_request_{};
  uv_shutdown_t shutdown_request_{};
  std::vector<sockaddr_storage> candidates_;
  size_t next_candidate_ = 0;
  Outbox outbox_;
  std::optional<Tls> tls_;
};

}  // namespace perigee
