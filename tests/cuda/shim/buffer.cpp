#include <cuda_runtime.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/cuda/shim/shim.h"

namespace shim {
namespace {

constexpr size_t kPage = 4096, kMostBuffers = 1024;

struct Place {
  const char* name = nullptr;
  const std::byte* pages = nullptr;
  size_t mapped = 0;
  const std::byte* data = nullptr;
  size_t bytes = 0;
};
std::array<Place, kMostBuffers> places;

// The program is lost: what is left is to say where.
void explain(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  char text[256];
  int length = 0;
  if (signal == SIGILL)  // what is compiled in where an access is not aligned (tests/cuda/meson.build)
    length =
        std::snprintf(text, sizeof text, "shim: block %u, thread %u of order %s touches several bytes that are on no border of theirs\n",
                      blockIdx.x, threadIdx.x, name_of(order()));
  else
    length = std::snprintf(text, sizeof text, "shim: block %u, thread %u of order %s touches %p, which is in no buffer\n", blockIdx.x,
                           threadIdx.x, name_of(order()), info->si_addr);
  for (const Place& place : places)
    if (signal == SIGSEGV && place.name != nullptr && at >= place.pages && at < place.pages + place.mapped)
      length = std::snprintf(text, sizeof text, "shim: block %u, thread %u of order %s touches byte %td of %s, which has %zu bytes\n",
                             blockIdx.x, threadIdx.x, name_of(order()), at - place.data, place.name, place.bytes);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, static_cast<size_t>(length));
  _exit(3);
}

// A fault on a fiber's stack is explained on another one. Where the thread has one already it stays: the address sanitizer gives each thread
// its own and unmaps, when the thread ends, whatever is in its place.
void watch_for_faults() {
  stack_t present = {};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) != 0) {
    static std::array<std::byte, 65536> stack;
    const stack_t own = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    sigaltstack(&own, nullptr);
  }
  struct sigaction action = {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGILL, &action, nullptr);
}

size_t pages_of(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

bool in_buffer(const void* at) {
  return std::any_of(places.begin(), places.end(), [at](const Place& place) {
    return place.name != nullptr && at >= place.data && at < place.data + std::max<size_t>(place.bytes, 1);
  });
}

Buffer::Buffer(const char* name, size_t bytes, size_t alignment)
    : name_(name),
      bytes_(bytes),
      mapped_(pages_of(bytes + alignment) + 2 * kPage),
      rubbish_(static_cast<std::byte>(0xc1 + static_cast<int>(order()))) {
  watch_for_faults();
  void* const memory = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::perror("mmap"), std::abort();
  pages_ = static_cast<std::byte*>(memory);
  std::byte* const end = pages_ + mapped_ - kPage;
  if (mprotect(pages_ + kPage, mapped_ - 2 * kPage, PROT_READ | PROT_WRITE) != 0) std::perror("mprotect"), std::abort();
  std::fill(pages_ + kPage, end, rubbish_);
  data_ = end - (bytes + alignment - 1) / alignment * alignment;
  for (Place& place : places)
    if (place.name == nullptr) {
      place = {name_, pages_, mapped_, data_, bytes_};
      watcher.memory(pages_, mapped_, Memory::device);
      return;
    }
  std::fprintf(stderr, "shim: more than %zu buffers\n", kMostBuffers);
  std::abort();
}

void Buffer::allow(bool allowed) {
  const int rights = allowed ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mprotect(pages_ + kPage, mapped_ - 2 * kPage, rights) != 0) std::perror("mprotect"), std::abort();
}

Buffer::~Buffer() {
  const auto touched = [&](std::byte byte) { return byte != rubbish_; };
  if (std::any_of(pages_ + kPage, data_, touched) || std::any_of(data_ + bytes_, pages_ + mapped_ - kPage, touched)) {
    std::fprintf(stderr, "shim: something was written beside %s, which has %zu bytes\n", name_, bytes_);
    std::abort();
  }
  for (Place& place : places)
    if (place.pages == pages_) place = {};
  watcher.memory(pages_, mapped_, Memory::gone);
  munmap(pages_, mapped_);
}

}  // namespace shim
