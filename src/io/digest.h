// Digests of bytes. XXH3 finds damage; MD5 compares with what others published; SHA-256 where somebody may have meant harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace perigee {

// Lower-case hexadecimal text: 32 digits for 128 bits, 64 for 256.
std::string xxh3_hex(std::span<const std::byte> bytes);
std::string hex_digest(uint64_t hash);  // 16 digits
// XXH3-64; a hash over several pieces is chained by the seed.
uint64_t xxh3_64(std::span<const std::byte> bytes, uint64_t seed = 0);
std::string md5_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::span<const std::byte> bytes);

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
