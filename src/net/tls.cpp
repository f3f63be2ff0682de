#include "src/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/net/tls_records.h"

namespace perigee {
namespace {

enum class TlsAlert : uint8_t { close_notify = 0, unexpected_message = 10, bad_record_mac = 20, record_overflow = 22, user_canceled = 90 };

// A key of AES-GCM is good for 2^24.5 full records (RFC 8446, 5.5), and small ones count as much.
constexpr uint64_t kMostRecords = uint64_t{1} << 24;

// "My next record has my next key", and no wish for one of the other side (RFC 8446, 4.6.3).
constexpr std::array<std::byte, 5> kKeyUpdate = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}};

template <auto Free>
struct Release {
  template <class T>
  void operator()(T* handle) const {
    Free(handle);
  }
};

// The text of OpenSSL's first error in this thread, which is the cause; the queue is then empty.
std::string take_ssl_error() {
  const unsigned long code = ERR_peek_error();
  const char* text = ERR_reason_error_string(code);
  ERR_clear_error();
  return text ? text : "unknown TLS error";
}

}  // namespace

struct TlsContext::Impl {
  std::unique_ptr<const TlsCredentials> credentials;
  std::unique_ptr<SSL_CTX, Release<SSL_CTX_free>> ssl;
  std::unique_ptr<BIO_METHOD, Release<BIO_meth_free>> bio;
  uint64_t rekey_bytes = 0;
  size_t handshake_bytes = 0;
};

struct Tls::Impl {
  const TlsContext::Impl* context = nullptr;
  TlsSink* sink = nullptr;
  std::unique_ptr<SSL, Release<SSL_free>> ssl;  // until the handshake is over
  std::span<const std::byte> fed;
  State state = State::handshake;
  Role role = Role::client;
  size_t handshake_bytes = 0;
  uint64_t sent_with_key = 0, records_with_key = 0, key_updates = 0;
  std::string problem;
  std::array<std::optional<TlsRecords::Secret>, 2> secrets;  // of the client's and the server's records, during the handshake
  std::optional<TlsRecords> sending, receiving;              // when open
  std::vector<std::byte> partial;                            // the begin of a record whose rest has not come
  std::vector<std::byte> text;                               // of a record that found no room...
  size_t text_at = 0;                                        // ...and what of it is taken already
  std::vector<std::byte> sealed;                             // for a sink without memory of its own
  bool renewed = false;                                      // the other side's key, since it last said anything

  static Impl& of(BIO* bio) { return *static_cast<Impl*>(BIO_get_data(bio)); }

  static int bio_write(BIO* bio, const char* bytes, size_t size, size_t* written) {
    of(bio).sink->put({reinterpret_cast<const std::byte*>(bytes), size});
    *written = size;
    return 1;
  }
  static int bio_read(BIO* bio, char* out, size_t size, size_t* got) {
    Impl& self = of(bio);
    BIO_clear_retry_flags(bio);
    *got = std::min({size, self.fed.size(), self.context->handshake_bytes - self.handshake_bytes});
    if (*got == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    self.handshake_bytes += *got;
    std::memcpy(out, self.fed.data(), *got);
    self.fed = self.fed.subspan(*got);
    return 1;
  }
  static long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  // OpenSSL tells its secrets as lines "LABEL RANDOM SECRET" in hexadecimal.
  static void on_secret(const SSL* ssl, const char* line) {
    static constexpr std::array<std::string_view, 2> kLabels = {"CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "};
    Impl& self = *static_cast<Impl*>(SSL_get_app_data(ssl));
    const std::string_view text(line);
    for (size_t side = 0; side < kLabels.size(); ++side) {
      if (!text.starts_with(kLabels[side]) || text.size() < 2 * TlsRecords::kSecretBytes) continue;
      const std::string_view hex = text.substr(text.size() - 2 * TlsRecords::kSecretBytes);
      TlsRecords::Secret& secret = self.secrets[side].emplace();
      for (size_t i = 0; i < secret.size(); ++i) std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, secret[i], 16);
    }
  }

  void fail(std::string why) {
    state = State::failed;
    problem = std::move(why);
    fed = {};
  }
  // Says so to the other side.
  size_t refuse(TlsAlert alert) {
    say_alert(alert, true);
    fail(SSL_alert_desc_string_long(static_cast<int>(alert)));
    return 0;
  }

  void shake_hands() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl.get());
    if (result != 1) {
      const int error = SSL_get_error(ssl.get(), result);
      if (error == SSL_ERROR_ZERO_RETURN) {
        state = State::closed;
        fed = {};
      } else if (error != SSL_ERROR_WANT_READ) {
        fail(take_ssl_error());
      } else if (handshake_bytes >= context->handshake_bytes) {
        fail("a handshake of more than " + std::to_string(context->handshake_bytes) + " bytes");
      }
      return;
    }
    std::string refusal = context->credentials->refusal(ssl.get());
    if (!refusal.empty()) return fail(std::move(refusal));
    take_over();
  }

  // From the last word of the handshake on. OpenSSL has read to its end and not a byte further (no read-ahead), and says no more.
  void take_over() {
    if (!secrets[0] || !secrets[1]) return fail("OpenSSL keeps the keys to itself");
    const bool client = role == Role::client;
    sending.emplace(*secrets[client ? 0 : 1]);
    receiving.emplace(*secrets[client ? 1 : 0]);
    forget_secrets();
    ssl.reset();
    state = State::open;
  }
  void forget_secrets() {
    for (auto& secret : secrets) {
      if (secret) OPENSSL_cleanse(secret->data(), secret->size());
      secret.reset();
    }
  }

  // ---- records ----

  bool put_record(TlsContent type, std::span<const std::byte> bytes) {
    const size_t size = bytes.size() + TlsRecords::kOverhead;
    std::byte* const own = sink->reserve(size);
    if (!own) sealed.resize(size);
    std::byte* const record = own ? own : sealed.data();
    if (!sending->seal(type, bytes, record)) return fail(take_ssl_error()), false;
    if (own) sink->commit(size);
    else sink->put(sealed);
    return true;
  }
  void say_alert(TlsAlert alert, bool fatal) {
    const std::array<std::byte, 2> words = {fatal ? std::byte{2} : std::byte{1}, static_cast<std::byte>(alert)};
    put_record(TlsContent::alert, words);
  }
  bool renew_sending() {
    if (!put_record(TlsContent::handshake, kKeyUpdate)) return false;
    sending->renew();
    sent_with_key = records_with_key = 0;
    ++key_updates;
    return true;
  }

  // The next whole record; empty: it is not here, or cannot be one. What comes in the midst of a record is kept.
  std::span<const std::byte> next_record() {
    constexpr size_t kHeader = TlsRecords::kHeaderBytes;
    const auto gather = [this](size_t bytes) {  // of the record, at least so many
      const auto rest = fed.first(std::min(bytes - std::min(bytes, partial.size()), fed.size()));
      partial.insert(partial.end(), rest.begin(), rest.end());
      fed = fed.subspan(rest.size());
      return partial.size() >= bytes;
    };
    const bool whole_header = partial.empty() && fed.size() >= kHeader;
    if (!whole_header && !gather(kHeader)) return {};
    const std::span<const std::byte> begin = whole_header ? fed : std::span<const std::byte>(partial);
    const size_t size = TlsRecords::record_bytes(begin.first<kHeader>());
    if (size == 0) return refuse(TlsAlert::unexpected_message), std::span<const std::byte>();
    if (whole_header && fed.size() >= size) {
      const auto record = fed.first(size);
      fed = fed.subspan(size);
      return record;
    }
    if (!gather(size)) return {};
    return partial;
  }

  // A record that is not for the caller. False: the conversation is over.
  bool take_other(TlsContent type, std::span<const std::byte> words) {
    if (type == TlsContent::alert && words.size() == 2) {
      const auto alert = static_cast<TlsAlert>(words[1]);
      if (alert == TlsAlert::user_canceled) return true;
      if (alert != TlsAlert::close_notify) return fail(SSL_alert_desc_string_long(std::to_integer<int>(words[1]))), false;
      state = State::closed;
      fed = {};
      return false;
    }
    // A key serves for something before the next one: a peer that only renews keys would keep us busy with them.
    const bool renewal = type == TlsContent::handshake && !renewed && words.size() == kKeyUpdate.size() &&
                         std::equal(words.begin(), words.end() - 1, kKeyUpdate.begin()) && words.back() <= std::byte{1};
    if (!renewal) return refuse(TlsAlert::unexpected_message), false;
    renewed = true;
    receiving->renew();
    return words.back() == std::byte{0} || renew_sending();
  }

  size_t take_text(std::span<std::byte> out) {
    const size_t count = std::min(out.size(), text.size() - text_at);
    std::memcpy(out.data(), text.data() + text_at, count);
    text_at += count;
    if (text_at == text.size()) text.clear(), text_at = 0;
    return count;
  }

  size_t read_records(std::span<std::byte> out) {
    if (!text.empty()) return take_text(out);
    while (true) {
      const auto record = next_record();
      if (record.empty()) return 0;
      const size_t room = record.size() - TlsRecords::kOverhead;
      const bool direct = room <= out.size();
      if (!direct) text.resize(room);
      std::byte* const target = direct ? out.data() : text.data();
      const auto opened = receiving->open(record, target);
      partial.clear();  // the record may be it
      if (!direct) text.resize(opened ? opened->bytes : 0);
      if (!opened) return refuse(TlsAlert::bad_record_mac);
      if (opened->bytes > TlsRecords::kMaxText) return text.clear(), refuse(TlsAlert::record_overflow);
      if (opened->type == TlsContent::data) {
        renewed = false;
        if (opened->bytes == 0) continue;
        return direct ? opened->bytes : take_text(out);
      }
      const bool goes_on = take_other(opened->type, {target, opened->bytes});
      text.clear();
      if (!goes_on) return 0;
    }
  }
};

TlsContext::TlsContext(std::unique_ptr<const TlsCredentials> credentials, uint64_t rekey_bytes) : impl_(std::make_unique<Impl>()) {
  assert(credentials);
  impl_->rekey_bytes = rekey_bytes;
  impl_->handshake_bytes = credentials->handshake_bytes();
  impl_->credentials = std::move(credentials);
  impl_->ssl.reset(SSL_CTX_new(TLS_method()));
  impl_->bio.reset(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "perigee"));
  SSL_CTX* ssl = impl_->ssl.get();
  BIO_METHOD* bio = impl_->bio.get();
  const bool ok = ssl && bio && SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 && SSL_CTX_set1_groups_list(ssl, "X25519") == 1 &&
                  SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") == 1 && SSL_CTX_set_num_tickets(ssl, 0) == 1 &&
                  impl_->credentials->install(ssl) && BIO_meth_set_write_ex(bio, Tls::Impl::bio_write) == 1 &&
                  BIO_meth_set_read_ex(bio, Tls::Impl::bio_read) == 1 && BIO_meth_set_ctrl(bio, Tls::Impl::bio_control) == 1;
  if (!ok)
    throw Error(ErrorKind::resources,
                {.what = "this OpenSSL cannot do TLS 1.3", .got = take_ssl_error(), .hint = "install OpenSSL 1.1.1 or newer"});
  SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(ssl, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_keylog_callback(ssl, Tls::Impl::on_secret);
}

TlsContext::~TlsContext() = default;

Tls::Tls(const TlsContext& context, Role role, TlsSink& sink) : impl_(std::make_unique<Impl>()) {
  impl_->context = context.impl_.get();
  impl_->sink = &sink;
  impl_->role = role;
  impl_->ssl.reset(SSL_new(context.impl_->ssl.get()));
  BIO* bio = BIO_new(context.impl_->bio.get());
  if (!impl_->ssl || !bio) {
    BIO_free(bio);
    throw Error(ErrorKind::resources, {.what = "no memory for a TLS connection"});
  }
  BIO_set_data(bio, impl_.get());
  BIO_set_init(bio, 1);
  SSL* ssl = impl_->ssl.get();
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, impl_.get());
  if (role == Role::client) SSL_set_connect_state(ssl);
  else SSL_set_accept_state(ssl);
}

Tls::~Tls() { impl_->forget_secrets(); }

Tls::State Tls::state() const { return impl_->state; }
const std::string& Tls::problem() const { return impl_->problem; }
uint64_t Tls::key_updates() const { return impl_->key_updates; }
void Tls::start() { impl_->shake_hands(); }

void Tls::feed(std::span<const std::byte> received) {
  assert(impl_->fed.empty());
  if (impl_->state == State::handshake || impl_->state == State::open) impl_->fed = received;
}

size_t Tls::read(std::span<std::byte> out) {
  assert(!out.empty());
  if (impl_->state == State::handshake) impl_->shake_hands();
  if (impl_->state != State::open) return 0;
  ERR_clear_error();
  return impl_->read_records(out);
}

bool Tls::write(std::span<const std::byte> bytes) {
  assert(impl_->state == State::open);
  ERR_clear_error();
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), TlsRecords::kMaxText));
    const bool worn = impl_->sent_with_key + part.size() > impl_->context->rekey_bytes || impl_->records_with_key >= kMostRecords;
    if (worn && !impl_->renew_sending()) return false;
    if (!impl_->put_record(TlsContent::data, part)) return false;
    impl_->sent_with_key += part.size();
    ++impl_->records_with_key;
    bytes = bytes.subspan(part.size());
  }
  return true;
}

void Tls::close() {
  if (impl_->state == State::open) impl_->say_alert(TlsAlert::close_notify, false);
  ERR_clear_error();
  impl_->state = State::closed;
  impl_->fed = {};
}

}  // namespace perigee
