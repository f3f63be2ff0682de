// A record of a run: it is refused with an Error, or its rounds follow one another and name what can be.
#include "cluster/ledger/ranges.h"
#include "cluster/ledger/run_record.h"
#include "tests/fuzz/fuzz.h"

using namespace perigee;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const RunRecord record = read_record({reinterpret_cast<const char*>(data), size}, "input");
    int64_t examples = 0;
    for (size_t i = 0; i < record.rounds.size(); ++i) {
      const RecordedRound& round = record.rounds[i];
      PERIGEE_FUZZ_CHECK(round.round == static_cast<int64_t>(i) && round.hash != 0 && !round.shares.empty());
      for (const RecordedShare& share : round.shares) {
        PERIGEE_FUZZ_CHECK(share.worker != 0 && share.base >= -1 && share.base < round.round && share.threads > 0);
        PERIGEE_FUZZ_CHECK(!share.ranges.empty() && disjoint(share.ranges));
        for (const Range& range : share.ranges) PERIGEE_FUZZ_CHECK(range.begin >= 0 && range.count > 0);
        examples += examples_of(share.ranges);
      }
      PERIGEE_FUZZ_CHECK(round.examples_after == examples);
    }
  } catch (const Error&) {}
  return 0;
}
