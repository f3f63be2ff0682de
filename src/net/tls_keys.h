// TLS credentials of both sides' own making: keys of 256 bits that they have beforehand (RFC 8446, 4.2.11), always with a fresh
// Diffie-Hellman secret for each connection (psk_dhe_ke). A handshake that ends proves the key to both sides.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/net/tls.h"

namespace perigee {

struct PreSharedKey {
  std::string identity;  // names the key in a handshake; tells nothing about it
  std::array<uint8_t, 32> bytes{};
};

class PreSharedKeys final : public TlsCredentials {
 public:
  // Shows `own` when connecting; takes it and `accepted` from others.
  explicit PreSharedKeys(PreSharedKey own, std::vector<PreSharedKey> accepted = {});

  static constexpr size_t kHandshakeBytes = 4096;  // about 500 are needed
  size_t handshake_bytes() const override { return kHandshakeBytes; }
  bool install(ssl_ctx_st* context) const override;
  std::string refusal(ssl_st* connection) const override;

 private:
  static int use_own_key(ssl_st* ssl, const evp_md_st*, const unsigned char** identity, size_t* size, ssl_session_st** session);
  static int find_key(ssl_st* ssl, const unsigned char* identity, size_t size, ssl_session_st** session);

  std::vector<PreSharedKey> keys_;  // the first is our own
};

}  // namespace perigee
