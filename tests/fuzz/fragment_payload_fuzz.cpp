// A worker's message in a round of fragments: arbitrary bytes are refused, or read as changes that lie inside them and written again give
// the same bytes.
#include "cluster/exchange/fragment_payload.h"

#include <algorithm>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee;
  if (size == 0) return 0;
  const size_t fragments = data[0] % 65;
  const std::span<const std::byte> bytes = fuzz_bytes(data, size).subspan(1);
  std::vector<FragmentChange> changes;
  if (!decode_fragments(bytes, fragments, &changes)) return 0;
  PERIGEE_FUZZ_CHECK(changes.size() <= fragments);
  for (const FragmentChange& change : changes)
    PERIGEE_FUZZ_CHECK(change.fragment < fragments && change.examples > 0 && change.examples <= kMaxFragmentExamples);
  const std::vector<std::byte> again = encode_fragments(changes);
  PERIGEE_FUZZ_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  return 0;
}
