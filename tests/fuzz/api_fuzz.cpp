// Sequences of calls of the C ABI (tests/api/call_sequence.h). The first byte says whether there are handles of all kinds to begin with.
#include "tests/api/call_sequence.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  CallSequence sequence({data + 1, size - 1});
  if (data[0] & 1) sequence.begin();
  sequence.play(400);
  return 0;
}
