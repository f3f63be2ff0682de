#include "cluster/exchange/fragment_payload.h"

#include <cassert>
#include <cstring>

namespace perigee {
namespace {

// Little-endian, as all that travels.
template <class T>
void put(std::byte* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
}
template <class T>
T get(const std::byte* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(from[i]) << (8 * i);
  return static_cast<T>(value);
}

}  // namespace

std::vector<std::byte> encode_fragments(std::span<const FragmentChange> changes) {
  size_t size = kFragmentPayloadHead;
  for (const FragmentChange& change : changes) size += kFragmentChangeHead + change.bytes.size();
  std::vector<std::byte> bytes(size);
  std::byte* at = bytes.data();
  put(at, static_cast<uint32_t>(changes.size()));
  at += kFragmentPayloadHead;
  for (const FragmentChange& change : changes) {
    assert(change.examples > 0 && change.examples <= kMaxFragmentExamples && change.bytes.size() <= UINT32_MAX);
    put(at, change.fragment), put(at + 4, static_cast<uint32_t>(change.bytes.size())), put(at + 8, change.examples);
    at += kFragmentChangeHead;
    if (!change.bytes.empty()) std::memcpy(at, change.bytes.data(), change.bytes.size());
    at += change.bytes.size();
  }
  return bytes;
}

bool decode_fragments(std::span<const std::byte> bytes, size_t fragments, std::vector<FragmentChange>* changes) {
  changes->clear();
  if (bytes.size() < kFragmentPayloadHead) return false;
  const auto count = get<uint32_t>(bytes.data());
  if (count > fragments) return false;
  bytes = bytes.subspan(kFragmentPayloadHead);
  for (uint32_t i = 0; i < count; ++i) {
    if (bytes.size() < kFragmentChangeHead) return false;
    const auto fragment = get<uint32_t>(bytes.data()), length = get<uint32_t>(bytes.data() + 4);
    const auto examples = get<int64_t>(bytes.data() + 8);
    bytes = bytes.subspan(kFragmentChangeHead);
    const bool ascending = changes->empty() || fragment > changes->back().fragment;
    if (fragment >= fragments || !ascending || examples <= 0 || examples > kMaxFragmentExamples || length > bytes.size()) return false;
    changes->push_back({fragment, examples, bytes.first(length)});
    bytes = bytes.subspan(length);
  }
  return bytes.empty();
}

}  // namespace perigee
