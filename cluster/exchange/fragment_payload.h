// A worker's payload in a round of fragments with codecs: for each fragment the number of examples of its change, and the change itself.
// A worker that has nothing to say sends an empty one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perigee {

struct FragmentChange {
  uint32_t fragment = 0;
  int64_t examples = 0;  // > 0
  std::span<const std::byte> bytes;
};

inline constexpr size_t kFragmentPayloadHead = 4, kFragmentChangeHead = 16;  // bytes: of all, and of each
inline constexpr int64_t kMaxFragmentExamples = int64_t{1} << 36;

std::vector<std::byte> encode_fragments(std::span<const FragmentChange> changes);
// The changes point into `bytes`. False when it is no such payload: fragments in ascending order, all below `fragments`, no byte left over.
bool decode_fragments(std::span<const std::byte> bytes, size_t fragments, std::vector<FragmentChange>* changes);

}  // namespace perigee
