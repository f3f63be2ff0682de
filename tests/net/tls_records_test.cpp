// The record layer against what we did not write: the worked example of RFC 8448, and OpenSSL as the other side of a conversation.
#include "src/net/tls_records.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/net/tls.h"
#include "src/net/tls_keys.h"

namespace perigee {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TlsRecords::Secret secret_of(const std::string& hex) {
  TlsRecords::Secret secret{};
  const Bytes bytes = from_hex(hex);
  for (size_t i = 0; i < secret.size(); ++i) secret[i] = std::to_integer<uint8_t>(bytes.at(i));
  return secret;
}

Bytes pattern(size_t size) {
  Bytes bytes(size);
  uint32_t state = 7;
  for (std::byte& byte : bytes) byte = std::byte((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

// RFC 8448, 3: the client's application data, and its alert after it.
TEST(TlsRecords, HasTheBytesOfTheStandardsExample) {
  const auto secret = secret_of("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
  const Bytes expected = from_hex(
      "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae6"
      "3aeebb21694915e4");
  const Bytes goodbye = from_hex("1703030013c9872760655666b74d7ff1153efd6db6d0b0e3");
  Bytes text(50);
  std::iota(reinterpret_cast<uint8_t*>(text.data()), reinterpret_cast<uint8_t*>(text.data()) + text.size(), uint8_t{0});
  TlsRecords sealing(secret), opening(secret);
  Bytes record(text.size() + TlsRecords::kOverhead), alert(2 + TlsRecords::kOverhead);
  ASSERT_TRUE(sealing.seal(TlsContent::data, text, record.data()));
  EXPECT_EQ(record, expected);
  ASSERT_TRUE(sealing.seal(TlsContent::alert, from_hex("0100"), alert.data()));
  EXPECT_EQ(alert, goodbye);

  Bytes back(text.size());
  const auto opened = opening.open(expected, back.data());
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->type, TlsContent::data);
  EXPECT_EQ(opened->bytes, text.size());
  EXPECT_EQ(back, text);
  EXPECT_FALSE(opening.open(expected, back.data()));  // its number has served
}

TEST(TlsRecords, AHeaderThatCannotComeIsNoRecord) {
  const auto bytes = [](const std::string& hex) {
    const Bytes header = from_hex(hex);
    return TlsRecords::record_bytes(std::span<const std::byte>(header).first<5>());
  };
  EXPECT_EQ(bytes("1703030011"), 22u);  // the type alone
  EXPECT_EQ(bytes("1703034100"), 5u + 16384 + 256);
  for (const char* header :
       {"1703030010", "1703030000", "1703034101", "170303ffff", "1603030011", "1503030011", "1403030011", "1703010011"})
    EXPECT_EQ(bytes(header), 0u) << header;
}

// OpenSSL from its handshake to its goodbye.
class Peer {
 public:
  Peer(const PreSharedKey& key, bool client) : key_(key), context_(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
    SSL_CTX* context = context_.get();
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_app_data(context, this);
    SSL_CTX_set_psk_use_session_callback(
        context, [](SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* size, SSL_SESSION** session) {
          Peer& self = *static_cast<Peer*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
          *id = reinterpret_cast<const unsigned char*>(self.key_.identity.data()), *size = self.key_.identity.size();
          *session = self.session(ssl);
          return 1;
        });
    SSL_CTX_set_psk_find_session_callback(context, [](SSL* ssl, const unsigned char*, size_t, SSL_SESSION** session) {
      *session = static_cast<Peer*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)))->session(ssl);
      return 1;
    });
    ssl_.reset(SSL_new(context));
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    client ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  }
  SSL* ssl() { return ssl_.get(); }
  Bytes said() {
    Bytes bytes(static_cast<size_t>(BIO_pending(SSL_get_wbio(ssl()))));
    if (!bytes.empty()) BIO_read(SSL_get_wbio(ssl()), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  void hear(std::span<const std::byte> bytes) {
    if (!bytes.empty()) BIO_write(SSL_get_rbio(ssl()), bytes.data(), static_cast<int>(bytes.size()));
    if (SSL_do_handshake(ssl()) != 1) return;
    size_t count = 0;
    for (Bytes room(5000); SSL_read_ex(ssl(), room.data(), room.size(), &count) == 1;)
      heard.insert(heard.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(count));
  }
  void say(std::span<const std::byte> bytes) {
    size_t count = 0;
    ASSERT_EQ(SSL_write_ex(ssl(), bytes.data(), bytes.size(), &count), 1);
  }
  Bytes heard;

 private:
  SSL_SESSION* session(SSL* ssl) const {
    static constexpr unsigned char kSuite[2] = {0x13, 0x01};
    SSL_SESSION* session = SSL_SESSION_new();
    SSL_SESSION_set1_master_key(session, key_.bytes.data(), key_.bytes.size());
    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kSuite));
    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    return session;
  }
  PreSharedKey key_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

// Ours; with memory of its own for what it says, as a stream has, or without.
struct Side final : TlsSink {
  Side(const TlsContext& context, Tls::Role role, bool own) : own_memory(own), tls(context, role, *this) {
    if (role == Tls::Role::client) tls.start();
  }
  void put(std::span<const std::byte> bytes) override { sent.insert(sent.end(), bytes.begin(), bytes.end()); }
  std::byte* reserve(size_t bytes) override {
    reserved.resize(bytes);
    return own_memory ? reserved.data() : nullptr;
  }
  void commit(size_t bytes) override { put(std::span(reserved).first(bytes)); }
  void hear(std::span<const std::byte> bytes, size_t room_bytes = 5000) {
    tls.feed(bytes);
    Bytes room(room_bytes);
    while (const size_t count = tls.read(room)) heard.insert(heard.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(count));
  }
  const bool own_memory;
  Bytes sent, heard, reserved;
  Tls tls;
};

class TlsPeerTest : public testing::TestWithParam<std::tuple<bool, size_t>> {
 protected:
  static PreSharedKey make_key() {
    PreSharedKey key{.identity = "ours"};
    key.bytes.fill(5);
    return key;
  }
  void open() {
    for (int turn = 0; turn < 6; ++turn) carry();
    ASSERT_EQ(side_.tls.state(), Tls::State::open) << side_.tls.problem();
    ASSERT_EQ(SSL_is_init_finished(peer_.ssl()), 1);
  }
  // One turn each, ours in pieces.
  void carry() {
    peer_.hear(std::exchange(side_.sent, {}));
    const Bytes words = peer_.said();
    for (size_t at = 0; at < words.size(); at += std::min(piece_, words.size() - at))
      side_.hear(std::span(words).subspan(at, std::min(piece_, words.size() - at)), room_);
  }
  const bool client_ = std::get<0>(GetParam());
  const size_t piece_ = std::get<1>(GetParam()), room_ = piece_ % 2 ? 5000 : 70000;
  const TlsContext context_{std::make_unique<PreSharedKeys>(make_key())};
  Side side_{context_, client_ ? Tls::Role::client : Tls::Role::server, piece_ % 2 == 0};
  Peer peer_{make_key(), !client_};
};

TEST_P(TlsPeerTest, UnderstandsOpenSslAndIsUnderstood) {
  open();
  Bytes said;
  for (const size_t size : {1, 16383, 16384, 16385, 100000}) {
    const Bytes words = pattern(size);
    said.insert(said.end(), words.begin(), words.end());
    ASSERT_TRUE(side_.tls.write(words));
    peer_.say(words);
    carry();
    ASSERT_EQ(peer_.heard, said);
    ASSERT_EQ(side_.heard, said);
  }
}

TEST_P(TlsPeerTest, PaddingIsTakenAway) {
  open();
  SSL_set_block_padding(peer_.ssl(), 4096);
  peer_.say(pattern(3));
  peer_.say(pattern(5000));
  const Bytes record = peer_.said();
  EXPECT_GT(record.size(), 3u * 4096);
  side_.hear(record, room_);
  Bytes both = pattern(3);
  const Bytes second = pattern(5000);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(side_.heard, both);
}

TEST_P(TlsPeerTest, KeysAreRenewedOnBothSidesWishes) {
  open();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(SSL_key_update(peer_.ssl(), round == 1 ? SSL_KEY_UPDATE_NOT_REQUESTED : SSL_KEY_UPDATE_REQUESTED), 1);
    peer_.say(pattern(100));
    ASSERT_TRUE(side_.tls.write(pattern(200)));  // before it has heard of that
    carry();
    ASSERT_TRUE(side_.tls.write(pattern(300)));
    carry();
  }
  EXPECT_EQ(side_.heard.size(), 300u);
  EXPECT_EQ(peer_.heard.size(), 1500u);
  EXPECT_EQ(side_.tls.key_updates(), 2u);
  EXPECT_EQ(side_.tls.state(), Tls::State::open) << side_.tls.problem();
}

TEST_P(TlsPeerTest, GoodbyesAreUnderstood) {
  open();
  side_.tls.close();
  carry();
  EXPECT_EQ(SSL_get_shutdown(peer_.ssl()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
  Side other(context_, client_ ? Tls::Role::client : Tls::Role::server, true);
  Peer leaving(make_key(), !client_);
  for (int turn = 0; turn < 6; ++turn) leaving.hear(std::exchange(other.sent, {})), other.hear(leaving.said());
  ASSERT_EQ(other.tls.state(), Tls::State::open);
  SSL_shutdown(leaving.ssl());
  other.hear(leaving.said());
  EXPECT_EQ(other.tls.state(), Tls::State::closed);
}

TEST_P(TlsPeerTest, AChangedRecordIsToldToTheOtherSide) {
  open();
  peer_.say(pattern(100));
  Bytes words = peer_.said();
  words[50] ^= std::byte{1};
  side_.hear(words, room_);
  EXPECT_EQ(side_.tls.state(), Tls::State::failed);
  EXPECT_EQ(side_.tls.problem(), "bad record mac");
  EXPECT_TRUE(side_.heard.empty());
  carry();
  EXPECT_NE(SSL_get_shutdown(peer_.ssl()) & SSL_RECEIVED_SHUTDOWN, 0);  // an alert that ends it
}

INSTANTIATE_TEST_SUITE_P(All, TlsPeerTest, testing::Combine(testing::Bool(), testing::Values(1, 1000, 4095, size_t{1} << 20)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "client" : "server") + std::to_string(std::get<1>(info.param));
                         });

// ---- an authenticated peer that says what no honest one does ----

class TlsHostileTest : public testing::Test {
 protected:
  // Both directions' secrets come from the handshake, as they do for the side itself.
  void SetUp() override {
    SSL_CTX_set_keylog_callback(SSL_get_SSL_CTX(peer_.ssl()), [](const SSL* ssl, const char* line) {
      auto& self = *static_cast<TlsHostileTest*>(SSL_get_app_data(ssl));
      const std::string text(line);
      if (text.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) self.records_.emplace(secret_of(text.substr(text.size() - 64)));
    });
    SSL_set_app_data(peer_.ssl(), this);
    for (int turn = 0; turn < 6; ++turn) peer_.hear(std::exchange(side_.sent, {})), side_.hear(peer_.said());
    ASSERT_EQ(side_.tls.state(), Tls::State::open);
    ASSERT_TRUE(records_);
  }
  void say(TlsContent type, const Bytes& text) {
    Bytes record(text.size() + TlsRecords::kOverhead);
    ASSERT_TRUE(records_->seal(type, text, record.data()));
    side_.hear(record);
  }
  PreSharedKey key_ = [] {
    PreSharedKey key{.identity = "ours"};
    key.bytes.fill(6);
    return key;
  }();
  const TlsContext context_{std::make_unique<PreSharedKeys>(key_)};
  Side side_{context_, Tls::Role::server, true};
  Peer peer_{key_, true};
  std::optional<TlsRecords> records_;
};

TEST_F(TlsHostileTest, OnlyWhatCanComeIsTaken) {
  say(TlsContent::data, {});
  say(TlsContent::data, pattern(10));
  say(TlsContent::alert, from_hex("015a"));  // user_canceled
  EXPECT_EQ(side_.heard, pattern(10));
  ASSERT_EQ(side_.tls.state(), Tls::State::open);
  say(TlsContent::none, pattern(0));
  EXPECT_EQ(side_.tls.state(), Tls::State::failed);
  EXPECT_EQ(side_.tls.problem(), "unexpected_message");
  say(TlsContent::data, pattern(10));
  EXPECT_EQ(side_.heard.size(), 10u);
}

TEST_F(TlsHostileTest, ARenewalMustBeWholeAndOneAtATime) {
  for (int i = 0; i < 3; ++i) {
    say(TlsContent::handshake, from_hex("1800000101"));
    records_->renew();
    say(TlsContent::data, pattern(1));
  }
  EXPECT_EQ(side_.heard.size(), 3u);
  EXPECT_EQ(side_.tls.key_updates(), 3u);
  say(TlsContent::handshake, from_hex("1800000100"));
  records_->renew();
  EXPECT_EQ(side_.tls.state(), Tls::State::open);
  say(TlsContent::handshake, from_hex("1800000100"));
  EXPECT_EQ(side_.tls.state(), Tls::State::failed);
}

TEST_F(TlsHostileTest, OtherHandshakesAreRefused) {
  say(TlsContent::handshake, from_hex("1800000102"));
  EXPECT_EQ(side_.tls.state(), Tls::State::failed);
}

TEST_F(TlsHostileTest, AFatalAlertEndsItWithItsName) {
  say(TlsContent::alert, from_hex("0228"));
  EXPECT_EQ(side_.tls.state(), Tls::State::failed);
  EXPECT_EQ(side_.tls.problem(), "handshake failure");
}

}  // namespace
}  // namespace perigee
