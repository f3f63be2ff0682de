#include "cluster/data/example_client.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

namespace perigee {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr size_t kMaxBlocks = 1024;
constexpr size_t kMaxBlockIds = 4096;
constexpr size_t kSpares = 64;
constexpr double kStarvedMs = 100;
constexpr std::chrono::milliseconds kLook{200};  // how often a reader that waits looks at its deadline

// Examples that are asked for together.
struct Block {
  uint32_t source = 0;
  uint64_t epoch = 0, seed = 0;
  size_t record = 0;  // bytes of one
  std::vector<int64_t> ids;
  std::vector<bool> taken;  // by a reader
  size_t cursor = 0;        // all before it are taken
  size_t left = 0;          // not taken, or being copied
  int users = 0;            // readers that wait or copy, and the loop thread while it copies

  uint64_t request = 0;  // 0: not asked
  size_t base = 0;       // the record that the request began with
  bool counted = false;  // in the window
  bool demanded = false;
  std::vector<std::byte> bytes;
  size_t received = 0;  // of them, from the start
  struct Failure {
    size_t record = 0;
    ErrorKind kind = ErrorKind::data;
    std::string text;
  };
  std::vector<Failure> failures;

  size_t size() const { return ids.size() * record; }
  bool complete() const { return request != 0 && received == size(); }
};
using Blocks = std::list<Block>;

}  // namespace

struct ExampleClient::Impl {
  Impl(std::function<void()> call, ExampleClientOptions chosen) : wake(std::move(call)), options(chosen) { assert(wake); }

  // ---- with the lock held ----

  Block& add(Blocks::iterator before, uint32_t source, size_t record, const ReadKey& key) {
    if (spares.empty()) spares.emplace_back();
    blocks.splice(before, spares, spares.begin());
    Block& block = *std::prev(before);
    block.source = source;
    block.epoch = key.epoch, block.seed = key.seed;
    block.record = record;
    block.ids.clear(), block.taken.clear(), block.failures.clear();
    block.cursor = block.left = block.received = block.base = 0;
    block.users = 0;
    block.request = 0;
    block.counted = block.demanded = false;
    return block;
  }

  void remove(Blocks::iterator block) {
    assert(block->users == 0);
    if (block->counted) held -= block->size();
    if (block->request != 0 && !block->complete()) asked_ids -= block->ids.size(), --asked;
    if (spares.size() < kSpares && block->bytes.capacity() <= 2 * options.block_bytes) spares.splice(spares.begin(), blocks, block);
    else blocks.erase(block);
  }

  bool holds(const Block& block, uint32_t source, const ReadKey& key) const {
    return block.source == source && block.epoch == key.epoch && block.seed == key.seed;
  }

  // The first place of this example that no reader has taken.
  std::pair<Blocks::iterator, size_t> find(uint32_t source, const ReadKey& key) {
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      if (!holds(*block, source, key)) continue;
      for (size_t i = block->cursor; i < block->ids.size(); ++i)
        if (block->ids[i] == key.index && !block->taken[i]) return {block, i};
    }
    return {blocks.end(), 0};
  }

  // As find(); a block that was not expected is put first.
  std::pair<Blocks::iterator, size_t> find_or_add(uint32_t source, const RecordLayout& layout, const ReadKey& key) {
    const auto found = find(source, key);
    if (found.first != blocks.end()) return found;
    ++counters.unexpected;
    Block& fresh = add(blocks.begin(), source, layout.bytes(), key);
    fresh.ids.push_back(key.index);
    fresh.taken.assign(1, false);
    fresh.left = 1;
    return {blocks.begin(), 0};
  }

  // The record is here, or known to have failed.
  bool here(const Block& block, size_t record) const {
    return stopped || block.received >= (record + 1) * block.record ||
           std::any_of(block.failures.begin(), block.failures.end(), [&](const auto& f) { return f.record == record; });
  }

  void take(Block& block, size_t i) {
    block.taken[i] = true;
    while (block.cursor < block.ids.size() && block.taken[block.cursor]) ++block.cursor;
    ++block.users;
  }

  // The same examples are expected already: the plan was made anew and begins with what it began with before.
  bool known(const Block& fresh) const {
    return std::any_of(blocks.begin(), blocks.end(), [&](const Block& b) {
      return &b != &fresh && b.source == fresh.source && b.epoch == fresh.epoch && b.seed == fresh.seed && b.cursor == 0 &&
             b.ids == fresh.ids;
    });
  }

  bool may_ask(const Block& block) const {
    if (block.request != 0 || asked >= options.max_requests) return false;
    if (block.demanded || block.counted || held == 0) return true;
    return held + block.size() <= options.window_bytes && asked_ids + block.ids.size() <= options.max_ids;
  }

  // The next block to be asked for: first what a reader waits for or an earlier coordinator did not send, then in the order in which they
  // are expected.
  Blocks::iterator to_ask() {
    if (!connected || stopped) return blocks.end();
    auto chosen = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return (b.demanded || b.counted) && may_ask(b); });
    if (chosen == blocks.end()) {
      chosen = std::find_if(blocks.begin(), blocks.end(), [](const Block& b) { return b.request == 0; });
      if (chosen != blocks.end() && !may_ask(*chosen)) chosen = blocks.end();
    }
    return chosen;
  }

  // A reader waits for a block that is not even asked for. What was expected before it, and fills the window, came of a plan that is no
  // longer followed: at most half of the window is left to such.
  void make_room(Blocks::iterator wanted) {
    size_t older = 0;
    for (auto block = blocks.begin(); block != wanted; ++block)
      if (block->counted && block->users == 0) older += block->size();
    for (auto block = blocks.begin(); block != wanted && older > options.window_bytes / 2;) {
      const auto next = std::next(block);
      if (block->counted && block->users == 0) {
        older -= block->size();
        ++counters.given_up;
        remove(block);
      }
      block = next;
    }
  }

  [[noreturn]] void fail(const char* what, std::string hint = "") const {
    throw Error(ErrorKind::cluster, {.where = options.where, .what = what, .hint = std::move(hint)});
  }

  void wait_for(std::unique_lock<std::mutex>& lock, const Block& block, size_t record) {
    if (here(block, record)) return;
    if (waiting++ == 0) waiting_since = SteadyClock::now();
    const auto begin = SteadyClock::now();
    while (!here(block, record)) {
      came.wait_for(lock, kLook);
      const Milliseconds silent = SteadyClock::now() - std::max(begin, progress);
      if (here(block, record) || !(connected || options.lost_is_silent) || silent.count() < options.deadline_ms) continue;
      --waiting;
      fail(options.silence, options.hint);
    }
    --waiting;
  }

  const std::function<void()> wake;
  const ExampleClientOptions options;

  mutable std::mutex mutex;  // of all below
  std::condition_variable came;
  Blocks blocks, spares;  // blocks: in the order in which they are expected
  bool connected = false, stopped = false;
  size_t held = 0;                  // bytes
  size_t asked = 0, asked_ids = 0;  // blocks, and examples in them, that are asked for and not complete
  uint64_t last_request = 0;
  SteadyClock::time_point progress;
  int waiting = 0;  // readers
  SteadyClock::time_point waiting_since;
  Counters counters;
};

ExampleClient::ExampleClient(std::function<void()> wake, ExampleClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(wake), options)) {}
ExampleClient::~ExampleClient() = default;

int64_t ExampleClient::room_for(const RecordLayout& layout) const {
  const size_t fit = impl_->options.window_bytes / std::max<size_t>(1, layout.bytes());
  return static_cast<int64_t>(std::clamp<size_t>(fit, 1, impl_->options.max_ids / 2));
}

void ExampleClient::expect(uint32_t source, const RecordLayout& layout, std::span<const ReadKey> keys) {
  Impl& c = *impl_;
  const size_t most = std::clamp<size_t>(c.options.block_bytes / std::max<size_t>(1, layout.bytes()), 1, kMaxBlockIds);
  bool ask = false;
  {
    const std::lock_guard lock(c.mutex);
    for (size_t i = 0; i < keys.size() && c.blocks.size() < kMaxBlocks;) {
      Block& block = c.add(c.blocks.end(), source, layout.bytes(), keys[i]);
      for (; i < keys.size() && block.ids.size() < most && c.holds(block, source, keys[i]); ++i) block.ids.push_back(keys[i].index);
      block.taken.assign(block.ids.size(), false);
      block.left = block.ids.size();
      if (c.known(block)) c.remove(std::prev(c.blocks.end()));
    }
    ask = c.to_ask() != c.blocks.end();
  }
  if (ask) c.wake();
}

void ExampleClient::read(uint32_t source, const RecordLayout& layout, const ReadKey& key, std::span<std::byte* const> slots) {
  Impl& c = *impl_;
  std::unique_lock lock(c.mutex);
  auto found = c.find_or_add(source, layout, key);
  auto& block = found.first;  // a lambda below needs it: no structured binding, which Clang 14 does not capture
  auto& i = found.second;
  c.take(*block, i);
  if (block->request == 0 && !block->demanded) {
    block->demanded = true;
    c.make_room(block);
    lock.unlock();
    c.wake();
    lock.lock();
  }
  const auto leave = [&] {
    --block->users;
    --block->left;
    if (block->left == 0 && block->users == 0) c.remove(block);
    return c.to_ask() != c.blocks.end();
  };
  try {
    c.wait_for(lock, *block, i);
    if (c.stopped) c.fail("this worker ends", "nothing is lost: others read the example");
    for (const Block::Failure& failure : block->failures)
      if (failure.record == i)
        throw Error(failure.kind,
                    {.where = std::string(c.options.sender) + ": example " + std::to_string(key.index), .what = failure.text});
  } catch (const Error&) {
    leave();
    throw;
  }
  lock.unlock();
  layout.unpack(block->bytes.data() + i * block->record, slots);
  lock.lock();
  const bool ask = leave();
  lock.unlock();
  if (ask) c.wake();
}

bool ExampleClient::take(uint32_t source, const RecordLayout& layout, const ReadKey& key, std::span<std::byte* const> slots) {
  Impl& c = *impl_;
  {
    std::unique_lock lock(c.mutex);
    const auto [block, i] = c.find_or_add(source, layout, key);
    if (!c.here(*block, i)) {
      if (block->request != 0 || std::exchange(block->demanded, true)) return false;
      c.make_room(block);
      lock.unlock();
      c.wake();
      return false;
    }
  }
  read(source, layout, key, slots);
  return true;
}

bool ExampleClient::asks() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->asked > 0;
}

bool ExampleClient::starved() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->waiting > 0 && Milliseconds(SteadyClock::now() - impl_->waiting_since).count() > kStarvedMs;
}

void ExampleClient::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stopped = true;
  impl_->came.notify_all();
}

void ExampleClient::on_joined() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->connected = true;
    if (!impl_->options.lost_is_silent) impl_->progress = SteadyClock::now();
  }
  impl_->wake();
}

void ExampleClient::on_coordinator_lost() {
  Impl& c = *impl_;
  const std::lock_guard lock(c.mutex);
  c.connected = false;
  for (Block& block : c.blocks) {
    if (block.request == 0 || block.complete()) continue;
    block.request = 0;
    block.received -= block.record > 0 ? block.received % block.record : 0;
  }
  c.asked = c.asked_ids = 0;
}

bool ExampleClient::next(Read* read) {
  Impl& c = *impl_;
  const std::lock_guard lock(c.mutex);
  const auto block = c.to_ask();
  if (block == c.blocks.end()) return false;
  block->bytes.resize(block->size());
  if (!block->counted) c.held += block->size();
  block->counted = true;
  block->request = ++c.last_request;
  block->base = block->record > 0 ? block->received / block->record : 0;
  if (c.asked == 0 && !c.options.lost_is_silent) c.progress = SteadyClock::now();
  ++c.asked, c.asked_ids += block->ids.size();
  ++c.counters.requests;
  c.counters.asked += block->ids.size() - block->base;
  read->request = block->request;
  read->source = block->source;
  read->epoch = block->epoch, read->seed = block->seed;
  read->ids.assign(block->ids.begin() + static_cast<ptrdiff_t>(block->base), block->ids.end());
  return true;
}

void ExampleClient::not_sent(const Read& read) {
  Impl& c = *impl_;
  const std::lock_guard lock(c.mutex);
  for (Block& block : c.blocks) {
    if (block.request != read.request || block.complete()) continue;
    block.request = 0;
    --c.asked, c.asked_ids -= block.ids.size();
    return;
  }
}

bool ExampleClient::on_examples(const Examples& examples, std::span<const std::byte> body) {
  Impl& c = *impl_;
  std::unique_lock lock(c.mutex);
  if (examples.request == 0 || examples.request > c.last_request) return false;
  const auto block = std::find_if(c.blocks.begin(), c.blocks.end(), [&](const Block& b) { return b.request == examples.request; });
  if (block == c.blocks.end()) return true;  // given up meanwhile
  const size_t rest = block->size() - block->base * block->record;
  if (examples.offset > rest || body.size() > rest - examples.offset) return false;
  const size_t at = block->base * block->record + static_cast<size_t>(examples.offset);
  if (examples.kind != 0) {
    if (!body.empty() || block->record == 0 || at % block->record != 0 || at >= block->size() || examples.kind < 2 || examples.kind > 7)
      return false;
    if (block->failures.size() < block->ids.size())
      block->failures.push_back({at / block->record, static_cast<ErrorKind>(examples.kind), examples.error});
    c.came.notify_all();
    return true;
  }
  if (at != block->received || body.empty()) return false;
  ++block->users;
  lock.unlock();
  std::memcpy(block->bytes.data() + at, body.data(), body.size());  // no thread reads it before `received` says so
  lock.lock();
  --block->users;
  block->received += body.size();
  c.progress = SteadyClock::now();
  c.counters.bytes += body.size();
  if (block->complete()) {
    --c.asked, c.asked_ids -= block->ids.size();
    c.counters.examples += block->ids.size();
  }
  if (block->left == 0 && block->users == 0) c.remove(block);  // its last reader left while this copied
  c.came.notify_all();
  const bool ask = c.to_ask() != c.blocks.end();
  lock.unlock();
  if (ask) c.wake();
  return true;
}

ExampleClient::Counters ExampleClient::counters() const {
  const std::lock_guard lock(impl_->mutex);
  Counters counters = impl_->counters;
  counters.held_bytes = impl_->held;
  return counters;
}

}  // namespace perigee
