#include "src/net/tls_records.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string_view>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kTagBytes = 16;
constexpr size_t kKeyBytes = 16;

// HKDF-Expand-Label (7.1) with an empty context, of at most one block.
bool expand(const TlsRecords::Secret& secret, std::string_view label, std::span<uint8_t> out) {
  constexpr std::string_view kPrefix = "tls13 ";
  std::array<uint8_t, 32> info{};
  size_t size = 0;
  const auto put = [&](size_t byte) { info[size++] = static_cast<uint8_t>(byte); };
  assert(out.size() <= 32 && kPrefix.size() + label.size() + 5 <= info.size());
  put(0), put(out.size());
  put(kPrefix.size() + label.size());
  for (const char c : kPrefix) put(static_cast<uint8_t>(c));
  for (const char c : label) put(static_cast<uint8_t>(c));
  put(0);  // the context
  put(1);  // the first block of HKDF-Expand
  std::array<uint8_t, 32> block{};
  unsigned written = 0;
  const bool ok = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), info.data(), size, block.data(), &written) != nullptr;
  std::copy_n(block.begin(), out.size(), out.begin());
  OPENSSL_cleanse(block.data(), block.size());
  return ok && written == block.size();
}

const unsigned char* in(std::span<const std::byte> bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* out(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

void write_header(size_t body, std::byte* record) {
  const size_t bytes[] = {static_cast<size_t>(TlsContent::data), 3, 3, body >> 8, body & 0xff};
  for (size_t i = 0; i < TlsRecords::kHeaderBytes; ++i) record[i] = static_cast<std::byte>(bytes[i]);
}

}  // namespace

void TlsRecords::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

TlsRecords::TlsRecords(const Secret& traffic) : secret_(traffic), cipher_(EVP_CIPHER_CTX_new()) {
  if (!cipher_) throw Error(ErrorKind::resources, {.what = "no memory for a TLS connection"});
  use_secret();
}

TlsRecords::~TlsRecords() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

void TlsRecords::use_secret() {
  std::array<uint8_t, kKeyBytes> key{};
  const bool ok = expand(secret_, "key", key) && expand(secret_, "iv", iv_) &&
                  EVP_CipherInit_ex(cipher_.get(), EVP_aes_128_gcm(), nullptr, key.data(), nullptr, 1) == 1;
  OPENSSL_cleanse(key.data(), key.size());
  if (!ok) throw Error(ErrorKind::resources, {.what = "this OpenSSL cannot do TLS 1.3", .got = "no AES-128-GCM"});
  sequence_ = 0;
}

void TlsRecords::renew() {
  Secret next{};
  if (!expand(secret_, "traffic upd", next)) throw Error(ErrorKind::resources, {.what = "this OpenSSL cannot do TLS 1.3"});
  secret_ = next;
  OPENSSL_cleanse(next.data(), next.size());
  use_secret();
}

// Each number serves once: keys are renewed long before 2^64 records.
std::array<uint8_t, 12> TlsRecords::next_nonce() {
  std::array<uint8_t, 12> nonce = iv_;
  for (size_t i = 0; i < 8; ++i) nonce[11 - i] ^= static_cast<uint8_t>(sequence_ >> (8 * i));
  ++sequence_;
  assert(sequence_ != 0);
  return nonce;
}

bool TlsRecords::seal(TlsContent type, std::span<const std::byte> text, std::byte* record) {
  assert(text.size() <= kMaxText);
  write_header(text.size() + 1 + kTagBytes, record);
  EVP_CIPHER_CTX* cipher = cipher_.get();
  std::byte* const body = record + kHeaderBytes;
  const auto size = static_cast<int>(text.size());
  const auto last = static_cast<unsigned char>(type);
  int written = 0, more = 0;
  return EVP_CipherInit_ex(cipher, nullptr, nullptr, nullptr, next_nonce().data(), 1) == 1 &&
         EVP_CipherUpdate(cipher, nullptr, &written, out(record), kHeaderBytes) == 1 &&
         (size == 0 || EVP_CipherUpdate(cipher, out(body), &written, in(text), size) == 1) &&
         EVP_CipherUpdate(cipher, out(body + size), &more, &last, 1) == 1 && EVP_CipherFinal_ex(cipher, out(body + size + 1), &more) == 1 &&
         EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, kTagBytes, body + size + 1) == 1;
}

size_t TlsRecords::record_bytes(std::span<const std::byte, kHeaderBytes> header) {
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(header[i]); };
  const size_t body = byte(3) << 8 | byte(4);
  const bool good = byte(0) == static_cast<size_t>(TlsContent::data) && byte(1) == 3 && byte(2) == 3 && body >= 1 + kTagBytes &&
                    kHeaderBytes + body <= kMaxRecord;
  return good ? kHeaderBytes + body : 0;
}

std::optional<TlsRecords::Opened> TlsRecords::open(std::span<const std::byte> record, std::byte* text) {
  assert(record.size() >= kOverhead && record.size() <= kMaxRecord);
  EVP_CIPHER_CTX* cipher = cipher_.get();
  const auto body = record.subspan(kHeaderBytes, record.size() - kHeaderBytes - kTagBytes), tag = record.last(kTagBytes);
  const auto size = static_cast<int>(body.size()) - 1;
  unsigned char last = 0, nothing = 0;
  int written = 0, more = 0;
  const bool ok = EVP_CipherInit_ex(cipher, nullptr, nullptr, nullptr, next_nonce().data(), 0) == 1 &&
                  EVP_CipherUpdate(cipher, nullptr, &written, in(record), kHeaderBytes) == 1 &&
                  (size == 0 || EVP_CipherUpdate(cipher, out(text), &written, in(body), size) == 1) &&
                  EVP_CipherUpdate(cipher, &last, &more, in(body.last(1)), 1) == 1 &&
                  EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, kTagBytes, const_cast<std::byte*>(tag.data())) == 1 &&
                  EVP_CipherFinal_ex(cipher, &nothing, &more) == 1;
  if (!ok) return std::nullopt;
  Opened opened{.type = static_cast<TlsContent>(last), .bytes = static_cast<size_t>(size)};
  while (opened.type == TlsContent::none && opened.bytes > 0) opened.type = static_cast<TlsContent>(text[--opened.bytes]);
  return opened;
}

}  // namespace perigee
