// Bytes per second of frames over loopback, plain and encrypted, between two threads with a loop each, and what AES-128-GCM alone does
// here. The bar for encryption is 0.75 of 1/(1/plain + 2/aead): both sides run the cipher one after the other in the worst case.
// CPU seconds per side are printed beside the wall clock's, since they are what a busy machine leaves true.
//   usage: cluster_wire_bench [megabytes] [kilobytes per frame]
#include <openssl/evp.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/uv/uv_transport.h"

namespace perigee {
namespace {

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Usage {
  double wall = 0, sender = 0, receiver = 0;  // seconds
};

// Sends `count` chunks as fast as the queue takes them.
class Sender final : public TransportEvents {
 public:
  Sender(UvLoop& loop, const UvTransportOptions& options, size_t count, size_t frame_bytes)
      : loop_(loop), left_(count), body_(frame_bytes, std::byte{1}), transport_(loop, options) {
    transport_.set_events(this);
  }
  void dial(const std::string& address) { transport_.connect(address, loop_.now_ns() + 20'000'000'000); }
  void on_connected(PeerId peer, const std::string&) override { pump(peer); }
  void on_writable(PeerId peer) override { pump(peer); }
  void on_frame(PeerId, std::span<const std::byte>) override { loop_.stop(); }  // the receiver has all
  void on_lost(PeerId, PeerLoss) override {
    if (left_ > 0) std::abort();
  }
  void on_timer(uint64_t) override {}

 private:
  void pump(PeerId peer) {
    std::byte head[kChunkHeadBytes];
    encode_into(head, Chunk{}, {}, body_.size());
    while (left_ > 0 && transport_.send(peer, head, body_)) --left_;
  }
  UvLoop& loop_;
  size_t left_;
  std::vector<std::byte> body_;
  UvTransport transport_;
};

class Receiver final : public TransportEvents {
 public:
  Receiver(UvLoop& loop, const UvTransportOptions& options, size_t count) : loop_(loop), left_(count), transport_(loop, options) {
    transport_.set_events(this);
    address = transport_.listen("127.0.0.1:0");
  }
  void on_connected(PeerId, const std::string&) override {}
  void on_frame(PeerId peer, std::span<const std::byte>) override {
    if (--left_ > 0) return;
    transport_.send(peer, encode(Leave{}, {}));
    transport_.close(peer);
  }
  void on_lost(PeerId, PeerLoss) override {}
  void on_timer(uint64_t) override {}
  void on_writable(PeerId) override {}
  bool done() const { return left_ == 0; }
  std::string address;

 private:
  UvLoop& loop_;
  size_t left_;
  UvTransport transport_;
};

Usage transfer(const UvTransportOptions& options, size_t count, size_t frame_bytes) {
  Usage figures;
  UvLoop loop;
  std::atomic<bool> ready = false;
  std::string address;
  UvLoop* receiver_loop = nullptr;
  std::thread thread([&] {
    UvLoop own;
    Receiver receiver(own, options, count);
    address = receiver.address, receiver_loop = &own;
    ready = true;
    const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    own.run();
    figures.receiver = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
  });
  while (!ready) std::this_thread::yield();
  Sender sender(loop, options, count, frame_bytes);
  sender.dial(address);
  const double wall = seconds(CLOCK_MONOTONIC), begin = seconds(CLOCK_THREAD_CPUTIME_ID);
  loop.run();
  figures.wall = seconds(CLOCK_MONOTONIC) - wall;
  figures.sender = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
  receiver_loop->stop();
  thread.join();
  return figures;
}

// Bytes per CPU second, 16 KiB at a time, as `openssl speed -evp aes-128-gcm` measures it.
double aead() {
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  std::vector<unsigned char> in(16384), out(16384 + 16);
  const unsigned char key[16] = {1}, nonce[12] = {2};
  constexpr int kTimes = 40000;
  const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < kTimes; ++i) {
    int size = 0;
    EVP_EncryptInit_ex(cipher.get(), i ? nullptr : EVP_aes_128_gcm(), nullptr, i ? nullptr : key, nonce);
    EVP_EncryptUpdate(cipher.get(), out.data(), &size, in.data(), static_cast<int>(in.size()));
    EVP_EncryptFinal_ex(cipher.get(), out.data() + size, &size);
  }
  return static_cast<double>(in.size()) * kTimes / (seconds(CLOCK_THREAD_CPUTIME_ID) - begin);
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  using namespace perigee;
  const size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 2048;
  const size_t frame = (argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 256) << 10;
  const size_t count = (megabytes << 20) / frame;
  const double bytes = static_cast<double>(count * frame);
  UvTransportOptions plain, tls;
  tls.key = Secret::random();
  const double cipher = aead();
  std::printf("aes-128-gcm            %6.2f GB per CPU second\n", cipher * 1e-9);
  double rate[2] = {}, cpu[2] = {};
  for (const bool encrypted : {false, true}) {
    const Usage f = transfer(encrypted ? tls : plain, count, frame);
    rate[encrypted] = bytes / f.wall;
    cpu[encrypted] = bytes / (f.sender + f.receiver);
    std::printf("%-9s frames %4zu KiB %6.2f GB/s   CPU: sender %6.2f, receiver %6.2f, both %6.2f GB/s\n", encrypted ? "encrypted" : "plain",
                frame >> 10, rate[encrypted] * 1e-9, bytes / f.sender * 1e-9, bytes / f.receiver * 1e-9, cpu[encrypted] * 1e-9);
  }
  std::printf("encrypted / (1/(1/plain + 2/aead)):  %.2f by the clock, %.2f by CPU seconds\n", rate[1] * (1 / rate[0] + 2 / cipher),
              cpu[1] * (1 / cpu[0] + 2 / cipher));
}
