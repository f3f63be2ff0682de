// Digests of bytes. XXH3 finds damage; MD5 compares with what others published; SHA-256 protects from deliberate changes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace perigee {

// Lower-case hexadecimal text: 32 digits for 128 bits, 64 for 256.
std::string xxh3_hex(std::span<const std::byte> bytes);
std::string hex_digest(uint64_t hash);  // 16 digits
// XXH3-64; a hash over several pieces is chained by the seed.
uint64_t xxh3_64(std::span<const std::byte> bytes, uint64_t seed = 0);
// The same of input whose beginning is worked on elsewhere: its blocks of kBlock bytes, all but the last of 1 to kBlock, join the sums, which
// start as start() says; end() takes in the rest: `tail` ends where the input does and has all of the last block, and kTail bytes at least.
struct Xxh3Sums {
  static constexpr size_t kBlock = 1024;
  static std::array<uint64_t, 24> secret();
  static Xxh3Sums start();
  static constexpr size_t kTail = 64;
  uint64_t end(std::span<const std::byte> tail, uint64_t all_bytes) const;
  std::array<uint64_t, 8> sums;
};
std::string md5_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::span<const std::span<const std::byte>> pieces);
// HMAC-SHA-256, 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view text);
std::string hex_text(std::string_view bytes);

// XXH3-128 of bytes that come in pieces.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void update(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace perigee
