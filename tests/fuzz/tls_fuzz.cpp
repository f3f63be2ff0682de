// Input from strangers and broken lines to one side of a TLS conversation. The first byte says when: to a server or a client that
// waits for its first words, into an open conversation, or as changes to an honest handshake. None of it may be taken for plain text.
#include "cluster/uv/tls.h"

#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace perigee {
namespace {

struct Side final : TlsSink {
  Side(const TlsContext& context, Tls::Role role) : tls(context, role, *this) {
    if (role == Tls::Role::client) tls.start();
  }
  void put(std::span<const std::byte> bytes) override { sent.insert(sent.end(), bytes.begin(), bytes.end()); }
  void hear(std::span<const std::byte> bytes) {
    tls.feed(bytes);
    std::array<std::byte, 64> room;
    while (const size_t count = tls.read(room)) heard += count;
  }
  std::vector<std::byte> sent;
  size_t heard = 0;
  Tls tls;
};

void talk(Side& a, Side& b) {
  while (!a.sent.empty() || !b.sent.empty()) {
    b.hear(std::exchange(a.sent, {}));
    a.hear(std::exchange(b.sent, {}));
  }
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee;
  static const TlsContext context(Secret::from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"), {});
  if (size < 4) return 0;
  const int mode = data[0] % 4;
  const auto bytes = fuzz_bytes(data + 1, size - 1);
  Side client(context, Tls::Role::client), server(context, Tls::Role::server);
  if (mode == 2) talk(client, server);
  if (mode == 3) {  // one byte of the client's words is changed
    auto words = std::exchange(client.sent, {});
    const size_t at = (data[1] | data[2] << 8) % words.size();
    if (at == 1 || at == 2) return 0;  // the first record's version, which must be ignored (RFC 8446, 5.1)
    words[at] ^= std::byte(data[3] | 1);
    server.hear(words);
    talk(client, server);
    PERIGEE_FUZZ_CHECK(server.tls.state() != Tls::State::open);
    return 0;
  }
  Side& victim = mode == 1 ? client : server;
  const size_t half = bytes.size() / 2;
  victim.hear(bytes.first(half));
  victim.hear(bytes.subspan(half));
  PERIGEE_FUZZ_CHECK(victim.heard == 0);
  PERIGEE_FUZZ_CHECK(mode == 2 || victim.tls.state() != Tls::State::open);
  return 0;
}
