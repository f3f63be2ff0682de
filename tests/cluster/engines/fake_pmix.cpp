// A libpmix.so.2 whose launcher fails: PERIGEE_FAKE_PMIX says how. The program loads it where PMIX_RANK is set (cluster/engines/pmix.cpp).
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

struct Process {
  char space[256];
  uint32_t rank;
};
struct Value {
  uint16_t type;
  union {
    char* text;
    uint32_t number;
    char room[64];
  } is;
};

bool fails_by(std::string_view way) {
  const char* chosen = std::getenv("PERIGEE_FAKE_PMIX");
  return chosen != nullptr && chosen == way;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int PMIx_Init(Process* self, void*, size_t) {
  std::strcpy(self->space, "fake");
  self->rank = 0;
  return 0;
}
int PMIx_Finalize(const void*, size_t) { return 0; }
int PMIx_Get(const Process*, const char* key, const void*, size_t, Value** found) {
  static Value size;
  if (std::strcmp(key, "pmix.job.size") != 0) return -1;  // nor where rank 0 is
  size.is.number = 2;
  *found = &size;
  return 0;
}
int PMIx_Put(uint8_t, const char*, Value*) { return fails_by("put") ? -1 : 0; }
int PMIx_Commit() { return 0; }
int PMIx_Fence_nb(const Process*, size_t, const void*, size_t, void (*done)(int, void*), void* data) {
  if (fails_by("barrier")) return -1;
  if (!fails_by("silence")) done(fails_by("status") ? -24 : 0, data);
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
