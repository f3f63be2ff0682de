#include "tests/cuda/shim/shim.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "tests/cuda/shim/fiber.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

// The linker's names for the borders of the section that __shared__ puts things in.
extern "C" {
extern std::byte __start_shim_shared[] __attribute__((weak, visibility("hidden")));
extern std::byte __stop_shim_shared[] __attribute__((weak, visibility("hidden")));
}

namespace shim {

Watcher watcher;

namespace {

constexpr size_t kStack = size_t{128} << 10;
constexpr unsigned kWarp = 32, kMostThreads = 1024;

Order chosen = Order::forward;
std::mt19937 shuffle_random;
std::map<std::string, std::vector<Barrier*>> reached;  // a template has one for each instance

enum class State : uint8_t { ready, at_barrier, at_exchange, done };

struct Thread {
  State state = State::ready;
  Fiber* fiber = nullptr;  // null: not begun
  bool waited = false;     // for the kernels before
  unsigned exchanges = 0;
};

// One warp's exchange of values. Two sets: the first lane at the next exchange must not overwrite what others have yet to read; no lane can be two
// ahead.
struct Exchange {
  uint64_t value[2][kWarp] = {};
  unsigned arrived = 0, mask = 0;
  const char* operation = nullptr;
};

struct Block {
  const std::function<void()>* body = nullptr;
  unsigned threads = 0, self = 0;
  Thread thread[kMostThreads];
  Exchange exchange[kMostThreads / kWarp];
  const Barrier* barrier = nullptr;  // at which one waits
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  Fiber scheduler;
} block;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "shim: block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what.c_str());
  std::abort();
}

void fiber_main() {
  for (;;) {  // a fiber whose thread is done takes another
    (*block.body)();
    if (!block.thread[block.self].waited) fail("it did not wait for the kernels before its own (begin_kernel)");
    block.thread[block.self].state = State::done;
    Fiber* const self = block.thread[block.self].fiber;
    block.idle.push_back(self);
    Fiber::go(*self, block.scheduler);
  }
}

Fiber* new_fiber() {
  if (block.idle.empty()) {
    block.fibers.push_back(std::make_unique<Fiber>(kStack, fiber_main));
    return block.fibers.back().get();
  }
  Fiber* const fiber = block.idle.back();
  block.idle.pop_back();
  return fiber;
}

// Until it waits or is done.
void resume(unsigned index) {
  Thread& thread = block.thread[index];
  if (thread.fiber == nullptr) thread.fiber = new_fiber();
  block.self = index;
  threadIdx.x = index;
  Fiber::go(block.scheduler, *thread.fiber);
}

void wait(State state) {
  Thread& thread = block.thread[block.self];
  thread.state = state;
  Fiber::go(*thread.fiber, block.scheduler);
}

void arrange(std::vector<unsigned>* order) {
  std::iota(order->begin(), order->end(), 0u);
  if (chosen == Order::reverse) std::reverse(order->begin(), order->end());
  if (chosen == Order::random) std::shuffle(order->begin(), order->end(), shuffle_random);
}

// True while some thread is not done. Opens the barrier when all wait at it.
bool open_barrier() {
  unsigned waiting = 0, done = 0;
  for (unsigned i = 0; i < block.threads; ++i) {
    waiting += block.thread[i].state == State::at_barrier;
    done += block.thread[i].state == State::done;
  }
  if (done == block.threads) return false;
  if (waiting == block.threads) {
    watcher.meet();
    for (unsigned i = 0; i < block.threads; ++i) block.thread[i].state = State::ready;
  } else if (waiting > 0 && done > 0) {
    fail("a thread waits at " + block.barrier->name + " for one that has ended");
  }
  return true;
}

void run_block(std::vector<unsigned>* order) {
  for (unsigned i = 0; i < block.threads; ++i) block.thread[i] = {};
  for (Exchange& exchange : block.exchange) exchange = {};
  const auto rubbish = static_cast<std::byte>(0xa5 + static_cast<int>(chosen));
  if (__start_shim_shared != nullptr) std::fill(__start_shim_shared, __stop_shim_shared, rubbish);
  watcher.meet();
  do {
    bool some = false;
    arrange(order);
    for (const unsigned i : *order)
      if (block.thread[i].state == State::ready) some = true, resume(i);
    if (!some) fail("no lane can go on: not all lanes of a warp came to the same exchange");
  } while (open_barrier());
}

}  // namespace

const char* name_of(Order order) { return order == Order::forward ? "forward" : order == Order::reverse ? "reverse" : "random"; }

void set_order(Order order, uint32_t seed) {
  chosen = order;
  shuffle_random.seed(seed);
}

Order order() { return chosen; }

std::vector<std::string> barriers() {
  std::vector<std::string> names;
  for (const auto& [name, instances] : reached) names.push_back(name);
  return names;
}

void leave_out(const std::string& name) {
  for (const auto& [known, instances] : reached)
    for (Barrier* barrier : instances) barrier->left_out = known == name;
}

void wait_for_earlier() { block.thread[block.self].waited = true; }
bool has_waited() { return block.thread[block.self].waited; }

int lane() { return static_cast<int>(block.self % kWarp); }

void run_grid(dim3 grid, dim3 threads, const std::function<void()>& thread) {
  if (threads.y != 1 || threads.z != 1 || grid.y != 1 || grid.z != 1 || threads.x % kWarp != 0)
    fail("grids and blocks have one dimension here, and whole warps");
  block.body = &thread;
  block.threads = threads.x;
  gridDim = grid, blockDim = threads;
  std::vector<unsigned> blocks(grid.x), order(threads.x);
  arrange(&blocks);
  watcher.memory(__start_shim_shared, static_cast<size_t>(__stop_shim_shared - __start_shim_shared), Memory::shared);
  watcher.launch(true);
  for (const unsigned index : blocks) {
    blockIdx.x = index;
    run_block(&order);
  }
  watcher.launch(false);
}

Barrier::Barrier(const char* file, int line) : name(std::string(file) + ":" + std::to_string(line)) {
  name.erase(0, name.rfind('/') + 1);
  reached[name].push_back(this);
}

void wait_for_block(const Barrier& barrier) {
  if (barrier.left_out) return;
  block.barrier = &barrier;
  wait(State::at_barrier);
}

const uint64_t* exchange(unsigned mask, uint64_t value, const char* operation) {
  Thread& self = block.thread[block.self];
  Exchange& warp = block.exchange[block.self / kWarp];
  uint64_t* const values = warp.value[self.exchanges++ % 2];
  const unsigned own = 1u << (block.self % kWarp);
  if ((mask & own) == 0) fail(std::string(operation) + " by a lane that its mask leaves out");
  if (warp.arrived == 0) warp.mask = mask, warp.operation = operation;
  if (warp.mask != mask || (warp.operation != operation && std::strcmp(warp.operation, operation) != 0))
    fail(std::string(operation) + " while others of the warp are at " + warp.operation);
  values[block.self % kWarp] = value;
  warp.arrived |= own;
  if (warp.arrived != mask) {
    wait(State::at_exchange);
    return values;
  }
  warp.arrived = 0;
  if (std::strcmp(operation, "__syncwarp") == 0) watcher.meet_warp(block.self / kWarp);
  const unsigned first = block.self / kWarp * kWarp;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (block.thread[first + lane].state == State::at_exchange) block.thread[first + lane].state = State::ready;
  return values;
}

}  // namespace shim
