// A 256-bit key that a cluster or one job shares. Its holder may join; a name that a peer gives itself is only a claim.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/net/tls_keys.h"

namespace perigee {

class Secret {
 public:
  Secret() = default;  // empty: no key
  static Secret random();
  // 64 hexadecimal digits. Error(authentication) otherwise; the text is not repeated in it.
  static Secret from_hex(std::string_view hex, std::string_view where = "");
  // A file as text() writes it; "-": standard input to its end, which must come within `patience_ms`. Error(authentication) when others than
  // its owner may read the file.
  static Secret from_file(const std::string& path, int64_t patience_ms = 10'000);

  bool empty() const { return !present_; }
  std::string hex() const;
  std::string text() const;  // of a secret file
  const std::array<uint8_t, 32>& bytes() const { return bytes_; }

  // The key of one job, by HKDF-SHA256: it reveals neither this one nor another job's.
  Secret for_job(uint64_t job) const;
  // Its public part: names the key in a handshake and in messages, tells nothing about it.
  std::string identity() const;

  // For a TLS handshake.
  PreSharedKey shared_key() const { return {identity(), bytes_}; }

  bool operator==(const Secret& other) const = default;

 private:
  Secret derive(std::string_view purpose) const;

  std::array<uint8_t, 32> bytes_{};
  bool present_ = false;
};

// Shows `own` when connecting; takes it and `accepted` from others.
std::unique_ptr<const TlsCredentials> credentials_of(const Secret& own, const std::vector<Secret>& accepted = {});

}  // namespace perigee
