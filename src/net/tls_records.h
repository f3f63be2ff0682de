// One direction of a TLS 1.3 connection after its handshake: records sealed and opened with TLS_AES_128_GCM_SHA256 (RFC 8446, 5.2). Text
// goes straight from the caller's memory into the record and back: OpenSSL's own record layer copies it once more on either side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

struct evp_cipher_ctx_st;

namespace perigee {

enum class TlsContent : uint8_t { none = 0, alert = 21, handshake = 22, data = 23 };

class TlsRecords {
 public:
  static constexpr size_t kHeaderBytes = 5;
  static constexpr size_t kOverhead = kHeaderBytes + 1 + 16;  // and the content's type, and the tag
  static constexpr size_t kMaxText = size_t{16} << 10;
  static constexpr size_t kMaxRecord = kHeaderBytes + kMaxText + 256;  // with what a sender may pad it to
  static constexpr size_t kSecretBytes = 32;
  using Secret = std::array<uint8_t, kSecretBytes>;

  // `traffic`: of this direction, from the handshake's key schedule (7.1). Error(resources) without memory.
  explicit TlsRecords(const Secret& traffic);
  ~TlsRecords();
  TlsRecords(const TlsRecords&) = delete;
  TlsRecords& operator=(const TlsRecords&) = delete;

  // `record` has room for text.size() + kOverhead bytes. False: OpenSSL failed.
  bool seal(TlsContent type, std::span<const std::byte> text, std::byte* record);

  // Bytes of the record that begins with this header, header included; 0: it is no record that can come now.
  static size_t record_bytes(std::span<const std::byte, kHeaderBytes> header);
  struct Opened {
    TlsContent type = TlsContent::none;  // none: nothing but padding
    size_t bytes = 0;                    // of text, without padding
  };
  // `text` has room for record.size() - kOverhead bytes. Nothing: the record is not what the other side sent; `text` is then nonsense.
  std::optional<Opened> open(std::span<const std::byte> record, std::byte* text);

  void renew();  // the next key (7.2)

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  void use_secret();
  std::array<uint8_t, 12> next_nonce();

  Secret secret_;
  std::array<uint8_t, 12> iv_{};
  uint64_t sequence_ = 0;
  std::unique_ptr<evp_cipher_ctx_st, Free> cipher_;
};

}  // namespace perigee
