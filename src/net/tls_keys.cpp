#include "src/net/tls_keys.h"

#include <openssl/ssl.h>

#include <memory>
#include <string_view>
#include <utility>

namespace perigee {
namespace {

constexpr unsigned char kSuite[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

const PreSharedKeys& keys_of(SSL* ssl) { return *static_cast<const PreSharedKeys*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))); }

struct ReleaseSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

// Null without memory; OpenSSL owns it.
SSL_SESSION* make_session(SSL* ssl, const PreSharedKey& key) {
  std::unique_ptr<SSL_SESSION, ReleaseSession> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kSuite);
  const bool ok = session && cipher && SSL_SESSION_set1_master_key(session.get(), key.bytes.data(), key.bytes.size()) == 1 &&
                  SSL_SESSION_set1_id_context(session.get(), kSuite, sizeof kSuite) == 1 &&
                  SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
                  SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return ok ? session.release() : nullptr;
}

}  // namespace

PreSharedKeys::PreSharedKeys(PreSharedKey own, std::vector<PreSharedKey> accepted) {
  keys_.push_back(std::move(own));
  for (PreSharedKey& other : accepted) keys_.push_back(std::move(other));
}

int PreSharedKeys::use_own_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size, SSL_SESSION** session) {
  const PreSharedKey& own = keys_of(ssl).keys_.front();
  *identity = reinterpret_cast<const unsigned char*>(own.identity.data());
  *size = own.identity.size();
  *session = make_session(ssl, own);
  return *session != nullptr;
}

// An unknown name is answered like any handshake without a key: there is no certificate to go on with, so it ends.
int PreSharedKeys::find_key(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  const std::string_view name(reinterpret_cast<const char*>(identity), size);
  *session = nullptr;
  for (const PreSharedKey& key : keys_of(ssl).keys_) {
    if (key.identity != name) continue;
    *session = make_session(ssl, key);
    return *session != nullptr;
  }
  return 1;
}

bool PreSharedKeys::install(SSL_CTX* context) const {
  if (SSL_CTX_set_session_id_context(context, kSuite, sizeof kSuite) != 1) return false;
  SSL_CTX_set_app_data(context, const_cast<PreSharedKeys*>(this));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     [](int, X509_STORE_CTX*) { return 0; });  // no certificate is good
  SSL_CTX_set_psk_use_session_callback(context, use_own_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
  return true;
}

// A certificate instead of the key is not offered and not taken; this makes it impossible, whatever OpenSSL's defaults become.
std::string PreSharedKeys::refusal(SSL* connection) const {
  const SSL_CIPHER* cipher = SSL_get_current_cipher(connection);
  const bool by_key = SSL_session_reused(connection) == 1 && SSL_version(connection) == TLS1_3_VERSION && cipher &&
                      SSL_CIPHER_get_protocol_id(cipher) == (kSuite[0] << 8 | kSuite[1]);
  return by_key ? "" : "the handshake did not use the key";
}

}  // namespace perigee
