// Unordered accesses, found on the host: kernels compiled with -fsanitize=thread call __tsan_read4 and the like before each access,
// and these, which stand in the place of the sanitizer's library, compare it with those before. Two threads of a block touch the same byte
// between two barriers, or two blocks of a launch do, and one of them writes something else: that is told, in whatever order the shim ran
// them. Exchanges of lanes order nothing, as for compute-sanitizer's racecheck; atomics and __ldcg are the device's own affair and not looked
// at. An access that is not on its border is told too: a GPU does not take it. So is one before begin_kernel.
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tests/cuda/shim/shim.h"

namespace shim {
namespace {

constexpr uint32_t kWarp = 32;

// Who touched a byte last. A meeting, of a block or of a warp, has one number in all blocks of all launches.
struct Touch {
  uint32_t launch, block, meeting, warp_meeting, thread;
  bool by_threads, by_warps, by_blocks;  // others too, since their meeting or in the launch
  uintptr_t code;
};
struct Byte {
  Touch written, read;
};
struct Region {
  uintptr_t begin = 0, end = 0;
  Byte* bytes = nullptr;
  bool shared = false;
};

std::map<uintptr_t, Region> regions;  // by where they end
Region recent;
uint32_t launch = 0, meeting = 0, warp_meetings[1024 / kWarp] = {};
bool running = false;
std::set<std::tuple<const char*, uintptr_t, uintptr_t>> known;
std::vector<std::string> races;

// A write of the value that is already there changes nothing. That is seen when the write is done.
struct {
  const std::byte* at = nullptr;
  std::byte before[16];
  size_t bytes;
  Touch first, second;
  const char* what;
} doubtful;

extern "C" const char __executable_start;

void tell(const char* what, const Touch& first, const Touch& second) {
  const auto base = reinterpret_cast<uintptr_t>(&__executable_start);
  const uintptr_t a = first.code - base, b = second.code - base;
  if (!known.emplace(what, a, b).second) return;
  char text[256];
  std::snprintf(text, sizeof text, "%s: block %u, thread %u and block %u, thread %u; addr2line -Cfie PROGRAM 0x%zx 0x%zx", what,
                first.block, first.thread, second.block, second.thread, a - 1, b - 1);
  races.emplace_back(text);
}

void settle() {
  const std::byte* const at = std::exchange(doubtful.at, nullptr);
  if (at != nullptr && std::memcmp(at, doubtful.before, doubtful.bytes) != 0) tell(doubtful.what, doubtful.first, doubtful.second);
}

bool of_one_warp(const Touch& a, const Touch& b) { return a.thread / kWarp == b.thread / kWarp; }
// Since the block met.
bool together(const Touch& a, const Touch& b) { return a.launch == b.launch && a.block == b.block && a.meeting == b.meeting; }

// Why nothing orders the two; null where something does.
const char* unordered(const Touch& first, const Touch& second, bool shared) {
  if (first.launch != second.launch) return nullptr;
  if (!shared && (first.block != second.block || first.by_blocks)) return "blocks do not wait for each other";
  if (!together(first, second)) return nullptr;
  const bool met = of_one_warp(first, second) && (first.warp_meeting != second.warp_meeting || first.thread == second.thread);
  const bool others = first.by_warps || (first.by_threads && first.warp_meeting == second.warp_meeting);
  if (met && !others) return nullptr;
  return shared ? "no barrier between accesses of shared memory" : "no barrier between accesses of memory";
}

Region* region_of(uintptr_t at) {
  if (at >= recent.begin && at < recent.end) return &recent;
  const auto next = regions.upper_bound(at);
  if (next == regions.end() || at < next->second.begin) return nullptr;
  recent = next->second;
  return &recent;
}

void touch(const void* address, size_t bytes, bool writes, bool on_border, uintptr_t code) {
  if (!running) return;
  settle();
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Region* const region = region_of(at);
  if (region == nullptr) return;
  Touch self{launch, blockIdx.x, meeting, warp_meetings[threadIdx.x / kWarp], threadIdx.x, false, false, false, code};
  if (!has_waited()) tell("before the kernels before it have ended", self, self);
  if (on_border && at % bytes != 0) tell("not on its border", self, self);
  for (Byte* byte = region->bytes + (at - region->begin); byte != region->bytes + std::min(at + bytes, region->end) - region->begin;
       ++byte) {
    if (const char* what = unordered(byte->written, self, region->shared)) {
      if (!writes || bytes > sizeof doubtful.before) {
        tell(what, byte->written, self);
      } else if (doubtful.at == nullptr) {
        doubtful.at = static_cast<const std::byte*>(address), doubtful.bytes = bytes;
        doubtful.first = byte->written, doubtful.second = self, doubtful.what = what;
        std::memcpy(doubtful.before, address, bytes);
      }
    }
    if (writes) {
      if (const char* what = unordered(byte->read, self, region->shared)) tell(what, byte->read, self);
      byte->written = self;
      continue;
    }
    const Touch& before = byte->read;
    const bool since = together(before, self);
    self.by_blocks = before.launch == launch && (before.by_blocks || before.block != self.block);
    self.by_warps = since && (before.by_warps || !of_one_warp(before, self));
    self.by_threads = since && before.warp_meeting == self.warp_meeting && (before.by_threads || before.thread != self.thread);
    byte->read = self;
  }
}

void watch(const std::byte* begin, size_t bytes, Memory kind) {
  const auto at = reinterpret_cast<uintptr_t>(begin), end = at + bytes;
  const auto found = regions.find(end);
  if (bytes == 0 || (found != regions.end()) != (kind == Memory::gone)) return;  // shared memory is told of at each launch
  recent = {};
  if (kind == Memory::gone) {
    munmap(found->second.bytes, bytes * sizeof(Byte));
    regions.erase(found);
    return;
  }
  void* const room = mmap(nullptr, bytes * sizeof(Byte), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) std::perror("mmap"), std::abort();
  regions[end] = {at, end, static_cast<Byte*>(room), kind == Memory::shared};
}

void begin_or_end(bool begins) {
  settle();
  launch += begins, running = begins;
}

void meet() {
  settle();
  ++meeting;
}

void meet_warp(unsigned warp) {
  settle();
  ++warp_meetings[warp];
}

}  // namespace

std::vector<std::string> take_races() {
  known.clear();
  return std::exchange(races, {});
}

}  // namespace shim

// The compiler's hooks, by the names of the sanitizer's library.
extern "C" {
void __tsan_init() {
  shim::watcher = {.launch = shim::begin_or_end, .meet = shim::meet, .meet_warp = shim::meet_warp, .memory = shim::watch};
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
char __tsan_atomic8_load(const char* at, int) { return *at; }  // of what is initialised once
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define PERIGEE_CODE reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define PERIGEE_ACCESS(bytes)                                                                         \
  void __tsan_read##bytes(void* at) { shim::touch(at, bytes, false, true, PERIGEE_CODE); }            \
  void __tsan_write##bytes(void* at) { shim::touch(at, bytes, true, true, PERIGEE_CODE); }            \
  void __tsan_unaligned_read##bytes(void* at) { shim::touch(at, bytes, false, false, PERIGEE_CODE); } \
  void __tsan_unaligned_write##bytes(void* at) { shim::touch(at, bytes, true, false, PERIGEE_CODE); }
PERIGEE_ACCESS(1)
PERIGEE_ACCESS(2)
PERIGEE_ACCESS(4)
PERIGEE_ACCESS(8)
PERIGEE_ACCESS(16)
void __tsan_read_range(void* at, size_t bytes) { shim::touch(at, bytes, false, false, PERIGEE_CODE); }
void __tsan_write_range(void* at, size_t bytes) { shim::touch(at, bytes, true, false, PERIGEE_CODE); }
}
