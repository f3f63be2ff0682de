#include <cstring>

#include "src/text/tokenizer.h"

namespace perigee {
namespace {

constexpr size_t kPlaces = 1 << 17, kLargestPart = 64, kMaxTexts = 1 << 21;

uint64_t hash_of(std::string_view part, unsigned kind) {
  uint64_t hash = 0x9E3779B97F4A7C15u * (part.size() + kind * 131 + 1);
  const char* at = part.data();
  size_t left = part.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  uint64_t word = 0;
  std::memcpy(&word, at, left);
  hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
  hash ^= hash >> 32;
  return hash | 1;  // 0: a free place
}

}  // namespace

TokenCache::TokenCache() : entries_(kPlaces) {}

size_t TokenCache::place(std::string_view part, uint64_t hash) const {
  size_t at = (hash >> 8) & (kPlaces - 1);
  while (entries_[at].hash != 0) {
    const Entry& entry = entries_[at];
    if (entry.hash == hash && entry.bytes == part.size() && std::memcmp(texts_.data() + entry.text, part.data(), part.size()) == 0) break;
    at = (at + 1) & (kPlaces - 1);
  }
  return at;
}

TokenCache::Found TokenCache::find(std::string_view part, unsigned kind) const {
  if (part.size() > kLargestPart) return {nullptr, 0};
  const Entry& entry = entries_[place(part, hash_of(part, kind))];
  if (entry.hash == 0) return {nullptr, 0};
  return {tokens_.data() + entry.tokens, entry.count};
}

void TokenCache::add(std::string_view part, unsigned kind, std::span<const WordToken> tokens, uint32_t offset) {
  if (part.size() > kLargestPart || tokens.size() > kLargestPart) return;
  if (used_ * 2 >= kPlaces || texts_.size() > kMaxTexts || tokens_.size() > kMaxTexts) {
    entries_.assign(kPlaces, Entry());
    texts_.clear(), tokens_.clear(), used_ = 0;
  }
  const uint64_t hash = hash_of(part, kind);
  Entry& entry = entries_[place(part, hash)];
  if (entry.hash != 0) return;
  entry = {hash, static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(tokens_.size()), static_cast<uint16_t>(part.size()),
           static_cast<uint16_t>(tokens.size())};
  ++used_;
  texts_ += part;
  if (tokens_.empty()) tokens_.reserve(1);  // its address says "found", also of no tokens
  for (const WordToken& token : tokens) tokens_.push_back({token.id, {token.span.from - offset, token.span.to - offset}});
}

}  // namespace perigee
