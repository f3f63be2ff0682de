#include "src/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kRecordBytes = size_t{16} << 10;

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
  std::unique_ptr<SSL, Release<SSL_free>> ssl;
  std::span<const std::byte> fed;
  State state = State::handshake;
  size_t handshake_bytes = 0;
  uint64_t sent_with_key = 0, key_updates = 0;
  std::string problem;

  static Impl& of(BIO* bio) { return *static_cast<Impl*>(BIO_get_data(bio)); }

  static int bio_write(BIO* bio, const char* bytes, size_t size, size_t* written) {
    of(bio).sink->put({reinterpret_cast<const std::byte*>(bytes), size});
    *written = size;
    return 1;
  }
  static int bio_read(BIO* bio, char* out, size_t size, size_t* got) {
    Impl& self = of(bio);
    BIO_clear_retry_flags(bio);
    *got = std::min(size, self.fed.size());
    if (self.state == State::handshake) *got = std::min(*got, self.context->handshake_bytes - self.handshake_bytes);
    if (*got == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    if (self.state == State::handshake) self.handshake_bytes += *got;
    std::memcpy(out, self.fed.data(), *got);
    self.fed = self.fed.subspan(*got);
    return 1;
  }
  static long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  void fail(std::string why) {
    state = State::failed;
    problem = std::move(why);
    fed = {};
  }

  void fail_by(int result) {
    const int error = SSL_get_error(ssl.get(), result);
    if (error == SSL_ERROR_ZERO_RETURN) {
      state = State::closed;
      fed = {};
      return;
    }
    fail(take_ssl_error());
  }

  void shake_hands() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl.get());
    if (result != 1) {
      if (SSL_get_error(ssl.get(), result) != SSL_ERROR_WANT_READ) return fail_by(result);
      if (handshake_bytes >= context->handshake_bytes)
        fail("a handshake of more than " + std::to_string(context->handshake_bytes) + " bytes");
      return;
    }
    std::string refusal = context->credentials->refusal(ssl.get());
    if (!refusal.empty()) return fail(std::move(refusal));
    state = State::open;
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
                  SSL_CTX_set_num_tickets(ssl, 0) == 1 && impl_->credentials->install(ssl) &&
                  BIO_meth_set_write_ex(bio, Tls::Impl::bio_write) == 1 && BIO_meth_set_read_ex(bio, Tls::Impl::bio_read) == 1 &&
                  BIO_meth_set_ctrl(bio, Tls::Impl::bio_control) == 1;
  if (!ok)
    throw Error(ErrorKind::resources,
                {.what = "this OpenSSL cannot do TLS 1.3", .got = take_ssl_error(), .hint = "install OpenSSL 1.1.1 or newer"});
  SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(ssl, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
}

TlsContext::~TlsContext() = default;

Tls::Tls(const TlsContext& context, Role role, TlsSink& sink) : impl_(std::make_unique<Impl>()) {
  impl_->context = context.impl_.get();
  impl_->sink = &sink;
  impl_->ssl.reset(SSL_new(context.impl_->ssl.get()));
  BIO* bio = BIO_new(context.impl_->bio.get());
  if (!impl_->ssl || !bio) {
    BIO_free(bio);
    throw Error(ErrorKind::resources, {.what = "no memory for a TLS connection"});
  }
  BIO_set_data(bio, impl_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(impl_->ssl.get(), bio, bio);
  if (role == Role::client) SSL_set_connect_state(impl_->ssl.get());
  else SSL_set_accept_state(impl_->ssl.get());
}

Tls::~Tls() = default;

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
  size_t got = 0;
  const int result = SSL_read_ex(impl_->ssl.get(), out.data(), out.size(), &got);
  if (result == 1) return got;
  if (SSL_get_error(impl_->ssl.get(), result) != SSL_ERROR_WANT_READ) impl_->fail_by(result);
  assert(impl_->fed.empty());
  return 0;
}

bool Tls::write(std::span<const std::byte> bytes) {
  assert(impl_->state == State::open);
  while (!bytes.empty()) {
    const auto record = bytes.first(std::min(bytes.size(), kRecordBytes));
    ERR_clear_error();
    if (impl_->sent_with_key + record.size() > impl_->context->rekey_bytes) {
      impl_->sent_with_key = 0;
      ++impl_->key_updates;
      if (SSL_key_update(impl_->ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return impl_->fail(take_ssl_error()), false;
    }
    size_t written = 0;
    const int result = SSL_write_ex(impl_->ssl.get(), record.data(), record.size(), &written);
    if (result != 1) return impl_->fail(take_ssl_error()), false;
    assert(written == record.size());
    impl_->sent_with_key += record.size();
    bytes = bytes.subspan(record.size());
  }
  return true;
}

void Tls::close() {
  if (impl_->state == State::open) SSL_shutdown(impl_->ssl.get());
  ERR_clear_error();
  impl_->state = State::closed;
  impl_->fed = {};
}

}  // namespace perigee
