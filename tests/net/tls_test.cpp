#include "src/net/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>

#include "cluster/launch/secret.h"
#include "src/io/file.h"
#include "src/net/tls_keys.h"

namespace perigee {
namespace {

// One side of a conversation, with what it wants to send.
struct Side final : TlsSink {
  Side(const TlsContext& context, Tls::Role role) : tls(context, role, *this) {
    if (role == Tls::Role::client) tls.start();
  }
  void put(std::span<const std::byte> bytes) override { sent.insert(sent.end(), bytes.begin(), bytes.end()); }
  // Takes what was received and keeps what it says.
  void hear(std::span<const std::byte> bytes) {
    tls.feed(bytes);
    std::vector<std::byte> room(5000);
    while (const size_t count = tls.read(room)) heard.insert(heard.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(count));
  }

  std::vector<std::byte> sent, heard;
  Tls tls;
};

// Carries bytes to and fro, `piece` at a time, until neither side has data.
void talk(Side& a, Side& b, size_t piece = SIZE_MAX) {
  while (!a.sent.empty() || !b.sent.empty()) {
    for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      const std::vector<std::byte> bytes = std::exchange(from->sent, {});
      for (size_t at = 0; at < bytes.size(); at += std::min(piece, bytes.size() - at))
        to->hear(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
  }
}

std::vector<std::byte> pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  uint32_t state = 1;
  for (std::byte& byte : bytes) byte = std::byte((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

class TlsTest : public testing::Test {
 protected:
  const Secret key_ = Secret::random();
  const TlsContext context_{credentials_of(key_)};
  Side client_{context_, Tls::Role::client}, server_{context_, Tls::Role::server};
};

TEST_F(TlsTest, TheSameKeyOpensBothSides) {
  EXPECT_EQ(client_.tls.state(), Tls::State::handshake);
  talk(client_, server_);
  EXPECT_EQ(client_.tls.state(), Tls::State::open) << client_.tls.problem();
  EXPECT_EQ(server_.tls.state(), Tls::State::open) << server_.tls.problem();
}

TEST_F(TlsTest, BytesMayComeInAnyPieces) {
  for (const size_t piece : {1, 2, 7, 100}) {
    Side client(context_, Tls::Role::client), server(context_, Tls::Role::server);
    talk(client, server, piece);
    ASSERT_EQ(client.tls.state(), Tls::State::open);
    const auto words = pattern(3000);
    ASSERT_TRUE(client.tls.write(words));
    talk(client, server, piece);
    EXPECT_EQ(server.heard, words);
  }
}

TEST_F(TlsTest, WhatIsSaidArrivesBothWays) {
  talk(client_, server_);
  std::vector<std::byte> said;
  for (const size_t size : {1, 40, 16383, 16384, 16385, 100000, 300000}) {
    const auto words = pattern(size);
    said.insert(said.end(), words.begin(), words.end());
    ASSERT_TRUE(client_.tls.write(words));
    ASSERT_TRUE(server_.tls.write(words));
    const auto start = words.begin(), end = start + static_cast<std::ptrdiff_t>(std::min<size_t>(size, 16));
    if (size > 16) {
      EXPECT_EQ(std::search(client_.sent.begin(), client_.sent.end(), start, end), client_.sent.end()) << "plain text on the line";
    }
    talk(client_, server_);
    ASSERT_EQ(server_.heard, said);
    ASSERT_EQ(client_.heard, said);
  }
}

TEST_F(TlsTest, ClosingIsTold) {
  talk(client_, server_);
  client_.tls.write(pattern(10));
  client_.tls.close();
  talk(client_, server_);
  EXPECT_EQ(server_.heard.size(), 10u);
  EXPECT_EQ(server_.tls.state(), Tls::State::closed);
}

TEST_F(TlsTest, AnotherKeyOpensNothing) {
  const TlsContext other(credentials_of(Secret::random()));
  Side stranger(other, Tls::Role::client);
  talk(stranger, server_);
  EXPECT_EQ(stranger.tls.state(), Tls::State::failed);
  EXPECT_EQ(server_.tls.state(), Tls::State::failed);
  EXPECT_FALSE(stranger.tls.problem().empty());
  Side impostor(other, Tls::Role::server);
  talk(client_, impostor);
  EXPECT_EQ(client_.tls.state(), Tls::State::failed);
  EXPECT_EQ(impostor.tls.state(), Tls::State::failed);
}

TEST_F(TlsTest, AJobsKeyOpensThatJobAlone) {
  const TlsContext job_7(credentials_of(key_.for_job(7))), job_8(credentials_of(key_.for_job(8))),
      coordinator(credentials_of(key_, {key_.for_job(7)}));
  {
    Side worker(job_7, Tls::Role::client), same(job_7, Tls::Role::server);
    talk(worker, same);
    EXPECT_EQ(same.tls.state(), Tls::State::open);
  }
  for (const TlsContext* elsewhere : {&job_8, &context_}) {
    Side worker(job_7, Tls::Role::client), other(*elsewhere, Tls::Role::server);
    talk(worker, other);
    EXPECT_EQ(other.tls.state(), Tls::State::failed);
    EXPECT_NE(worker.tls.state(), Tls::State::open);
  }
  for (const TlsContext* accepted : {&job_7, &context_}) {
    Side worker(*accepted, Tls::Role::client), both(coordinator, Tls::Role::server);
    talk(worker, both);
    EXPECT_EQ(both.tls.state(), Tls::State::open);
  }
}

// Otherwise a server that trusts several keys could not tell whose job a connection belongs to.
TEST_F(TlsTest, AKeyUnderAnotherNameOpensNothing) {
  PreSharedKey key{.identity = "ours"}, other{.identity = "theirs"};
  key.bytes.fill(1), other.bytes.fill(2);
  PreSharedKey renamed = key;
  renamed.identity = other.identity;
  const TlsContext server(std::make_unique<PreSharedKeys>(key, std::vector{other}));
  for (const auto& [shown, opens] : {std::pair{key, true}, {other, true}, {renamed, false}, {PreSharedKey{"nameless", key.bytes}, false}}) {
    const TlsContext context(std::make_unique<PreSharedKeys>(shown));
    Side client(context, Tls::Role::client), side(server, Tls::Role::server);
    talk(client, side);
    EXPECT_EQ(side.tls.state() == Tls::State::open, opens) << shown.identity;
    EXPECT_EQ(client.tls.state() == Tls::State::open, opens) << shown.identity;
  }
}

// OpenSSL in another program's configuration.
class RawSide {
 public:
  explicit RawSide(int version = TLS1_3_VERSION) : context_(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    SSL_CTX_set_app_data(context_.get(), this);
  }
  void use_key(std::string identity, const Secret& key) {
    identity_ = std::move(identity), key_ = key;
    SSL_CTX_set_psk_use_session_callback(
        context_.get(), [](SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* size, SSL_SESSION** session) {
          const auto* self = static_cast<const RawSide*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
          static constexpr unsigned char kSuite[2] = {0x13, 0x01};
          *id = reinterpret_cast<const unsigned char*>(self->identity_.data()), *size = self->identity_.size();
          *session = SSL_SESSION_new();
          SSL_SESSION_set1_master_key(*session, self->key_.bytes().data(), 32);
          SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kSuite));
          SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
          return 1;
        });
  }
  void use_certificate() {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
    ASSERT_EQ(SSL_CTX_use_certificate(context_.get(), certificate.get()), 1);
    ASSERT_EQ(SSL_CTX_use_PrivateKey(context_.get(), key.get()), 1);
  }
  // Says what it has to say, given what it heard; true while its handshake is not over.
  std::vector<std::byte> turn(bool client, std::span<const std::byte> heard) {
    if (!ssl_) {
      ssl_.reset(SSL_new(context_.get()));
      SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
      client ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
    }
    if (!heard.empty()) BIO_write(SSL_get_rbio(ssl_.get()), heard.data(), static_cast<int>(heard.size()));
    done = SSL_do_handshake(ssl_.get()) == 1;
    std::vector<std::byte> said(static_cast<size_t>(BIO_pending(SSL_get_wbio(ssl_.get()))));
    if (!said.empty()) BIO_read(SSL_get_wbio(ssl_.get()), said.data(), static_cast<int>(said.size()));
    return said;
  }
  bool done = false;

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
  std::string identity_;
  Secret key_;
};

void talk_raw(RawSide& raw, bool raw_is_client, Side& side) {
  for (int turn = 0; turn < 6; ++turn) {
    const auto said = raw.turn(raw_is_client, std::exchange(side.sent, {}));
    if (!said.empty()) side.hear(said);
  }
}

TEST_F(TlsTest, ThePublicNameOfAKeyIsNotTheKey) {
  RawSide honest;
  honest.use_key(key_.identity(), key_);
  talk_raw(honest, true, server_);
  EXPECT_EQ(server_.tls.state(), Tls::State::open);  // so that what follows fails for the key alone
  RawSide thief;
  thief.use_key(key_.identity(), Secret::random());
  Side server(context_, Tls::Role::server);
  talk_raw(thief, true, server);
  EXPECT_EQ(server.tls.state(), Tls::State::failed);
  EXPECT_FALSE(thief.done);
}

TEST_F(TlsTest, NobodyEntersWithoutAKey) {
  RawSide nobody;
  talk_raw(nobody, true, server_);
  EXPECT_EQ(server_.tls.state(), Tls::State::failed);
  RawSide older(TLS1_2_VERSION);
  Side server(context_, Tls::Role::server);
  talk_raw(older, true, server);
  EXPECT_EQ(server.tls.state(), Tls::State::failed);
}

TEST_F(TlsTest, ACertificateIsNoKey) {
  RawSide impostor;
  impostor.use_certificate();
  talk_raw(impostor, false, client_);
  EXPECT_EQ(client_.tls.state(), Tls::State::failed);
  RawSide visitor;
  visitor.use_certificate();
  talk_raw(visitor, true, server_);
  EXPECT_EQ(server_.tls.state(), Tls::State::failed);
}

TEST_F(TlsTest, ARecordedConversationOpensNothing) {
  std::vector<std::byte> recorded;
  for (int turn = 0; turn < 4; ++turn) {
    const auto said = std::exchange(client_.sent, {});
    recorded.insert(recorded.end(), said.begin(), said.end());
    server_.hear(said);
    client_.hear(std::exchange(server_.sent, {}));
    if (turn == 2) {
      ASSERT_TRUE(client_.tls.write(pattern(100)));
    }
  }
  ASSERT_EQ(server_.heard.size(), 100u);
  Side again(context_, Tls::Role::server);
  again.hear(recorded);
  EXPECT_EQ(again.tls.state(), Tls::State::failed);
  EXPECT_TRUE(again.heard.empty());
}

TEST_F(TlsTest, EveryChangedByteOfAHandshakeIsNoticed) {
  constexpr size_t kIgnored = 2;  // of the first record's version, which must be ignored (RFC 8446, 5.1)
  const size_t hello = client_.sent.size();
  for (size_t at = 0; at < hello; ++at) {
    if (at == kIgnored) continue;
    Side client(context_, Tls::Role::client), server(context_, Tls::Role::server);
    client.sent[at] ^= std::byte{0x10};
    talk(client, server);
    EXPECT_NE(server.tls.state(), Tls::State::open) << at;
    EXPECT_NE(client.tls.state(), Tls::State::open) << at;
  }
  server_.hear(std::exchange(client_.sent, {}));
  const size_t answer = server_.sent.size();
  for (size_t at = 0; at < answer; ++at) {
    if (at == kIgnored) continue;
    Side client(context_, Tls::Role::client), server(context_, Tls::Role::server);
    server.hear(std::exchange(client.sent, {}));
    server.sent[at] ^= std::byte{0x10};
    talk(client, server);
    EXPECT_NE(server.tls.state(), Tls::State::open) << at;
    EXPECT_NE(client.tls.state(), Tls::State::open) << at;
  }
}

TEST_F(TlsTest, EveryChangedByteOfARecordIsNoticed) {
  Side probe(context_, Tls::Role::client), partner(context_, Tls::Role::server);
  talk(probe, partner);
  ASSERT_TRUE(probe.tls.write(pattern(20)));
  const size_t record = probe.sent.size();
  for (size_t at = 0; at < record; ++at) {
    Side client(context_, Tls::Role::client), server(context_, Tls::Role::server);
    talk(client, server);
    ASSERT_TRUE(client.tls.write(pattern(20)));
    client.sent[at] ^= std::byte{1};
    server.hear(std::exchange(client.sent, {}));
    EXPECT_TRUE(server.heard.empty()) << at;
    // A longer length only makes it wait for more; whatever comes next ends it.
    server.hear(pattern(20000));
    EXPECT_EQ(server.tls.state(), Tls::State::failed) << at;
    EXPECT_TRUE(server.heard.empty()) << at;
  }
}

TEST_F(TlsTest, ARepeatedRecordEndsTheConversation) {
  talk(client_, server_);
  ASSERT_TRUE(client_.tls.write(pattern(20)));
  const auto record = std::exchange(client_.sent, {});
  server_.hear(record);
  EXPECT_EQ(server_.heard.size(), 20u);
  server_.hear(record);
  EXPECT_EQ(server_.tls.state(), Tls::State::failed);
  EXPECT_EQ(server_.heard.size(), 20u);
}

TEST_F(TlsTest, AStrangerMayNotSayMuch) {
  // The beginning of a client's hello of 64 KiB, in records of the largest size: well-formed, and more than anybody needs.
  std::vector<std::byte> words;
  for (int record = 0; record < 4; ++record) {
    for (const int byte : {0x16, 3, 1, 0x40, 0}) words.push_back(std::byte(byte));
    std::vector<std::byte> part(0x4000, std::byte{0});
    const int hello[] = {1, 1, 0, 0, 3, 3};
    if (record == 0) std::transform(std::begin(hello), std::end(hello), part.begin(), [](int byte) { return std::byte(byte); });
    words.insert(words.end(), part.begin(), part.end());
  }
  server_.hear(std::span(words).first(PreSharedKeys::kHandshakeBytes - 1));
  EXPECT_EQ(server_.tls.state(), Tls::State::handshake);
  server_.hear(std::span(words).subspan(PreSharedKeys::kHandshakeBytes - 1, 1));
  EXPECT_EQ(server_.tls.state(), Tls::State::failed);
}

TEST_F(TlsTest, GarbageOpensNothing) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Side server(context_, Tls::Role::server), client(context_, Tls::Role::client);
    auto words = pattern(600 + seed);
    for (std::byte& byte : words) byte ^= std::byte(seed);
    if (seed % 2) words[0] = std::byte{0x16}, words[1] = words[2] = std::byte{3}, words[3] = std::byte{1};
    server.hear(words);
    client.hear(words);
    EXPECT_NE(server.tls.state(), Tls::State::open);
    EXPECT_NE(client.tls.state(), Tls::State::open);
  }
}

TEST_F(TlsTest, KeysAreRenewedLongBeforeTheirBound) {
  const TlsContext often(credentials_of(key_), 50000);
  Side client(often, Tls::Role::client), server(often, Tls::Role::server);
  talk(client, server);
  std::vector<std::byte> said;
  for (int i = 0; i < 20; ++i) {
    const auto words = pattern(20000);
    said.insert(said.end(), words.begin(), words.end());
    ASSERT_TRUE(client.tls.write(words));
    if (i % 3 == 0) talk(client, server);
  }
  talk(client, server);
  EXPECT_EQ(server.heard, said);
  EXPECT_GE(client.tls.key_updates(), 7u);
  EXPECT_EQ(server.tls.key_updates(), 0u);
}

// A hello that announces more than a stranger may make us read; what comes of it is no more than was announced.
TEST_F(TlsTest, AHelloWithoutEndIsRefused) {
  const auto record = [](std::string body) {
    body.insert(0, {'\x16', '\x03', '\x01', static_cast<char>(body.size() >> 8), static_cast<char>(body.size() & 255)});
    return body;
  };
  std::string sent = record(std::string("\x01\x01\xff\x00", 4) + std::string(10'000, 'x'));
  for (int i = 0; i < 20 && server_.tls.state() == Tls::State::handshake; ++i) {
    server_.hear(as_bytes(sent));
    sent = record(std::string(10'000, 'x'));
  }
  EXPECT_EQ(server_.tls.state(), Tls::State::failed);
  EXPECT_TRUE(server_.tls.problem().starts_with("a handshake of more than ")) << server_.tls.problem();
}

}  // namespace
}  // namespace perigee
