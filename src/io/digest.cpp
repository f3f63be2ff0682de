#include "src/io/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee {
namespace {

std::string hex_of(const unsigned char* bytes, size_t count) {
  static const char* const digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) (text += digits[bytes[i] >> 4]) += digits[bytes[i] & 15];
  return text;
}

std::string hex_of(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return hex_of(canonical.digest, sizeof canonical.digest);
}

// The entry points of OpenSSL's digests; its headers are not needed for them.
struct OpenSsl {
  OpenSsl() : module({"libcrypto.so.3", "libcrypto.so"}, "checksums", "libssl3") {
    module.symbol("EVP_Digest", digest);
    module.symbol("EVP_md5", md5);
    module.symbol("EVP_sha256", sha256);
    module.symbol("EVP_MD_CTX_new", context);
    module.symbol("EVP_MD_CTX_free", free_context);
    module.symbol("EVP_DigestInit_ex", begin);
    module.symbol("EVP_DigestUpdate", update);
    module.symbol("EVP_DigestFinal_ex", end);
    module.symbol("HMAC", hmac);
  }
  Module module;
  int (*digest)(const void* data, size_t count, unsigned char* out, unsigned* size, const void* type, void* engine);
  const void* (*md5)();
  const void* (*sha256)();
  void* (*context)();
  void (*free_context)(void* context);
  int (*begin)(void* context, const void* type, void* engine);
  int (*update)(void* context, const void* data, size_t count);
  int (*end)(void* context, unsigned char* out, unsigned* size);
  unsigned char* (*hmac)(const void* type, const void* key, int key_size, const unsigned char* data, size_t count, unsigned char* out,
                         unsigned* size);
};
const OpenSsl& openssl() {
  static const OpenSsl library;
  return library;
}

std::string openssl_hex(std::span<const std::byte> bytes, const void* (*OpenSsl::*kind)()) {
  const OpenSsl& library = openssl();
  unsigned char out[64];
  unsigned size = 0;
  const void* type = (library.*kind)();
  if (type == nullptr || library.digest(bytes.data(), bytes.size(), out, &size, type, nullptr) != 1)
    throw Error(ErrorKind::resources, {.what = "OpenSSL refuses this digest", .hint = "a FIPS configuration forbids MD5"});
  return hex_of(out, size);
}

}  // namespace

std::string xxh3_hex(std::span<const std::byte> bytes) { return hex_of(XXH3_128bits(bytes.data(), bytes.size())); }
std::string hex_digest(uint64_t hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4) text[i] = kDigits[hash & 15];
  return text;
}
uint64_t xxh3_64(std::span<const std::byte> bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

std::array<uint64_t, 24> Xxh3Sums::secret() {
  std::array<uint64_t, 24> words;
  static_assert(sizeof words == sizeof XXH3_kSecret);
  std::memcpy(words.data(), XXH3_kSecret, sizeof words);
  return words;
}

Xxh3Sums Xxh3Sums::start() {
  return {{XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3, XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1}};
}

uint64_t Xxh3Sums::end(std::span<const std::byte> tail, uint64_t all_bytes) const {
  constexpr size_t kStripe = kTail, kLastStripe = sizeof XXH3_kSecret - kStripe - 7, kMerge = 11;  // of the secret, in bytes
  std::array<uint64_t, 8> acc = sums;
  const auto word = [](const void* bytes, size_t at) {
    uint64_t value;
    std::memcpy(&value, static_cast<const std::byte*>(bytes) + at, sizeof value);
    return value;
  };
  const auto add = [&](const std::byte* stripe, size_t secret) {
    for (size_t lane = 0; lane < acc.size(); ++lane) {
      const uint64_t value = word(stripe, 8 * lane), key = value ^ word(XXH3_kSecret, secret + 8 * lane);
      acc[lane ^ 1] += value;
      acc[lane] += (key & 0xffffffffu) * (key >> 32);
    }
  };
  const std::span<const std::byte> rest = tail.last((all_bytes - 1) % kBlock + 1);
  for (size_t i = 0; i < (rest.size() - 1) / kStripe; ++i) add(rest.data() + i * kStripe, 8 * i);
  add(tail.last(kStripe).data(), kLastStripe);
  uint64_t hash = all_bytes * XXH_PRIME64_1;
  for (size_t i = 0; i < 4; ++i) {
    const auto product = static_cast<unsigned __int128>(acc[2 * i] ^ word(XXH3_kSecret, kMerge + 16 * i)) *
                         (acc[2 * i + 1] ^ word(XXH3_kSecret, kMerge + 16 * i + 8));
    hash += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  hash ^= hash >> 37;
  hash *= 0x165667919E3779F9u;
  return hash ^ (hash >> 32);
}

std::string md5_hex(std::span<const std::byte> bytes) { return openssl_hex(bytes, &OpenSsl::md5); }
std::string sha256_hex(std::span<const std::byte> bytes) { return openssl_hex(bytes, &OpenSsl::sha256); }

std::string sha256_hex(std::span<const std::span<const std::byte>> pieces) {
  const OpenSsl& library = openssl();
  const std::unique_ptr<void, void (*)(void*)> context(library.context(), library.free_context);
  unsigned char out[64];
  unsigned size = 0;
  bool good = context && library.begin(context.get(), library.sha256(), nullptr) == 1;
  for (const auto& piece : pieces) good = good && library.update(context.get(), piece.data(), piece.size()) == 1;
  if (!good || library.end(context.get(), out, &size) != 1) throw Error(ErrorKind::resources, {.what = "OpenSSL refuses this digest"});
  return hex_of(out, size);
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  unsigned char out[64];
  unsigned size = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  if (openssl().hmac(openssl().sha256(), key.data(), static_cast<int>(key.size()), data, text.size(), out, &size) == nullptr)
    throw Error(ErrorKind::resources, {.what = "OpenSSL refuses this digest"});
  return {reinterpret_cast<const char*>(out), size};
}

std::string hex_text(std::string_view bytes) { return hex_of(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()); }

struct Xxh3::State {
  XXH3_state_t hash;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
Xxh3::~Xxh3() = default;
void Xxh3::update(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size()); }
std::string Xxh3::hex() const { return hex_of(XXH3_128bits_digest(&state_->hash)); }

}  // namespace perigee
