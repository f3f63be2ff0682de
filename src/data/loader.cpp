#include "src/data/loader.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "kernels/philox.h"
#include "src/data/sharded_order.h"

namespace perigee {
namespace {

constexpr int kFeistelRounds = 6;
constexpr size_t kMaxExpected = 256;  // batches that a source is told of at once

// Shuffled halves of unequal width, so that the domain is less than twice the size and the walk below is short.
struct Feistel {
  int low_bits, high_bits;
  uint64_t keys[kFeistelRounds];

  uint64_t permute(uint64_t x) const {
    const uint64_t low_mask = (uint64_t{1} << low_bits) - 1, high_mask = (uint64_t{1} << high_bits) - 1;
    uint64_t low = x & low_mask, high = x >> low_bits;
    for (int i = 0; i < kFeistelRounds; i += 2) {
      high = (high ^ mix_bits(low + keys[i])) & high_mask;
      low = (low ^ mix_bits(high + keys[i + 1])) & low_mask;
    }
    return high << low_bits | low;
  }
};

}  // namespace

int64_t shuffled_index(uint64_t seed, uint64_t epoch, int64_t position, int64_t size) {
  assert(size > 0 && position >= 0 && position < size);
  const int bits = std::max(4, static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))));
  Feistel feistel{bits / 2, bits - bits / 2, {}};
  for (int i = 0; i < kFeistelRounds; ++i) feistel.keys[i] = mix_bits(mix_bits(seed) ^ mix_bits(epoch * kFeistelRounds + i + 1));
  auto index = static_cast<uint64_t>(position);
  do index = feistel.permute(index);  // outside the size: walk on along the cycle, which comes back inside
  while (index >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(index);
}

struct Loader::Impl {
  // A batch being read or waiting to be taken. `sequence` counts batches since the last seek.
  struct Slot {
    Batch batch;
    uint64_t sequence = 0;
    bool ready = false;
    bool busy = false;  // a thread is reading into it
    std::exception_ptr error;
  };

  Impl(SourcePtr given, LoaderOptions chosen)
      : source(std::move(given)), options(chosen), size(source->size()), ahead(source->read_ahead()) {
    if (size < 1) throw Error(ErrorKind::data, {.where = source->describe(), .what = "the data source has no examples"});
    if (options.batch < 1)
      throw Error(ErrorKind::usage, {.what = "the batch size must be at least 1", .got = std::to_string(options.batch)});
    if (options.shards > 1) order = ShardedOrder(size, options.shards, options.batch);
    // One for the caller, and those read ahead.
    slots.resize(options.threads > 0 ? static_cast<size_t>(std::max(options.prefetch, 1)) + 1 : 1);
    for (auto& slot : slots) {
      make_room(slot.batch, options.batch);
    }
  }

  void make_room(Batch& batch, int64_t examples) const {
    if (static_cast<int64_t>(batch.ids.size()) >= examples) return;
    batch.ids.resize(static_cast<size_t>(examples));
    batch.fields.clear();
    for (const auto& field : source->fields()) {
      if (options.ids_only) break;
      std::vector<int64_t> dims = field.shape.vector();
      dims.insert(dims.begin(), examples);
      batch.fields.emplace_back(field.dtype, Shape(dims));
    }
  }

  int64_t batches_from(int64_t position) const { return (size - position + options.batch - 1) / options.batch; }

  // Where batch number `sequence` after the seek begins; O(1).
  BatchRange range_of(uint64_t sequence) const {
    if (by_list) return list[sequence % list.size()];
    const auto first = static_cast<uint64_t>(batches_from(start_position));
    BatchRange range{.epoch = start_epoch, .position = start_position};
    if (sequence < first) {
      range.position += static_cast<int64_t>(sequence) * options.batch;
    } else {
      const auto whole = static_cast<uint64_t>(batches_from(0));
      range.epoch += 1 + (sequence - first) / whole;
      range.position = static_cast<int64_t>((sequence - first) % whole) * options.batch;
    }
    range.size = std::min(options.batch, size - range.position);
    return range;
  }

  void place(uint64_t sequence, Batch& batch) const {
    const BatchRange range = range_of(sequence);
    batch.epoch = range.epoch;
    batch.position = range.position;
    batch.size = range.size;
  }

  int64_t id_at(uint64_t epoch, int64_t position) const {
    if (options.shards > 1) return order.index(options.seed, epoch, position, options.shuffle);
    return options.shuffle ? shuffled_index(options.seed, epoch, position, size) : position;
  }

  // Batch `sequence` is about to be read. What the source should hear of: it and the batches after it, as far as the source wants to
  // know and the loader knows, less what it has heard.
  void take_expected(uint64_t sequence, std::vector<BatchRange>& expected) {
    expected.clear();
    if (ahead == 0) return;
    if (next_to_expect < sequence) next_to_expect = sequence, expected_examples = read_examples;
    while ((next_to_expect <= sequence || expected_examples - read_examples < ahead) && (!by_list || next_to_expect < list_end) &&
           expected.size() < kMaxExpected) {
      expected.push_back(range_of(next_to_expect++));
      expected_examples += expected.back().size;
    }
    read_examples += range_of(sequence).size;
  }

  void tell_expected(const std::vector<BatchRange>& expected, std::vector<ReadKey>& keys) const {
    for (const BatchRange& range : expected) {
      keys.clear();
      for (int64_t i = 0; i < range.size; ++i)
        keys.push_back({.index = id_at(range.epoch, range.position + i), .epoch = range.epoch, .seed = options.seed});
      source->expect(keys);
    }
  }

  void fill(Batch& batch, std::vector<std::byte*>& slots_of_example, std::vector<size_t>& bytes) const {
    make_room(batch, batch.size);  // only a listed batch can be larger than those before
    for (int64_t i = 0; i < batch.size; ++i) batch.ids[static_cast<size_t>(i)] = id_at(batch.epoch, batch.position + i);
    if (options.ids_only) return;
    constexpr int64_t kAhead = 6;  // shuffled examples come from far: several are on their way while one is read
    for (int64_t i = 0; i < std::min(kAhead, batch.size); ++i) source->prefetch(batch.ids[static_cast<size_t>(i)]);
    for (int64_t i = 0; i < batch.size; ++i) {
      if (i + kAhead < batch.size) source->prefetch(batch.ids[static_cast<size_t>(i + kAhead)]);
      for (size_t f = 0; f < bytes.size(); ++f) slots_of_example[f] = batch.fields[f].data<std::byte>() + static_cast<size_t>(i) * bytes[f];
      source->read({.index = batch.ids[static_cast<size_t>(i)], .epoch = batch.epoch, .seed = options.seed}, slots_of_example);
    }
  }

  std::vector<size_t> field_bytes() const {
    std::vector<size_t> bytes;
    for (const auto& field : source->fields()) bytes.push_back(static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype));
    return bytes;
  }

  void start() {
    for (int i = 0; i < options.threads; ++i)
      threads.emplace_back([this, i] { read_ahead(static_cast<uint8_t>(std::min(kLoaderRow + i, 255))); });
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    work.notify_all();
    for (auto& thread : threads) thread.join();
  }

  Slot& slot_of(uint64_t sequence) { return slots[sequence % slots.size()]; }

  // True when a thread may begin the next batch: its slot is neither the caller's nor still being read after a seek.
  bool may_read() {
    return next_to_read < next_to_take + slots.size() - 1 && !slot_of(next_to_read).busy && (!by_list || next_to_read < list_end);
  }

  void read_ahead(uint8_t row) {
    PhaseTimes times(options.trace, row);
    std::vector<size_t> bytes = field_bytes();
    std::vector<std::byte*> pointers(bytes.size());
    std::vector<BatchRange> expected;
    std::vector<ReadKey> keys;
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return stopping || may_read(); });
      if (stopping) return;
      Slot& slot = slot_of(next_to_read);
      slot.sequence = next_to_read++;
      slot.ready = false;
      slot.busy = true;
      slot.error = nullptr;
      place(slot.sequence, slot.batch);
      take_expected(slot.sequence, expected);
      const uint64_t of_generation = generation;
      lock.unlock();
      std::exception_ptr error;
      try {
        tell_expected(expected, keys);
        const PhaseScope scope(times, TracePhase::read, slot.batch.size);
        fill(slot.batch, pointers, bytes);
      } catch (const std::exception&) {
        error = std::current_exception();
      }
      lock.lock();
      slot.busy = false;
      slot.ready = of_generation == generation;
      slot.error = error;
      done.notify_all();
      if (!slot.ready) work.notify_all();  // the slot was waited for
    }
  }

  const Batch& next_in_place() {
    Slot& slot = slots[0];
    if (own_bytes.empty()) {
      own_bytes = field_bytes();
      own_pointers.resize(own_bytes.size());
    }
    take_expected(next_to_take, own_expected);
    tell_expected(own_expected, own_keys);
    place(next_to_take++, slot.batch);
    fill(slot.batch, own_pointers, own_bytes);
    return slot.batch;
  }

  const Batch& next() {
    assert(!by_list || next_to_take < list_end);
    if (options.threads <= 0) return next_in_place();
    std::unique_lock lock(mutex);
    if (threads.empty()) start();
    // The batch handed out last is the caller's until now; from here its slot may be filled again.
    const uint64_t sequence = next_to_take;
    Slot& slot = slot_of(sequence);
    done.wait(lock, [&] { return slot.ready && slot.sequence == sequence; });
    ++next_to_take;
    work.notify_one();
    if (slot.error) {
      slot.ready = false;
      std::rethrow_exception(std::exchange(slot.error, nullptr));
    }
    return slot.batch;
  }

  void seek(uint64_t epoch, int64_t position) {
    assert(position >= 0);
    const std::lock_guard lock(mutex);
    by_list = false;
    start_epoch = epoch + static_cast<uint64_t>(position / size);
    start_position = position % size;
    restart();
  }

  void restart() {
    next_to_read = next_to_take = list_end = next_to_expect = 0;
    expected_examples = read_examples = 0;
    ++generation;
    for (auto& slot : slots) slot.ready = false;
    work.notify_all();
  }

  void clear_list() {
    const std::lock_guard lock(mutex);
    by_list = true;
    if (list.empty()) list.resize(64);
    restart();
  }

  size_t listed() {
    const std::lock_guard lock(mutex);
    return static_cast<size_t>(list_end - next_to_take);
  }

  bool append(const BatchRange& range) {
    if (range.position < 0 || range.size < 1 || range.position > size - range.size)
      throw Error(ErrorKind::data, {.where = source->describe(),
                                    .what = "a range of examples does not lie within an epoch",
                                    .got = std::to_string(range.position) + " + " + std::to_string(range.size),
                                    .expected = "within " + std::to_string(size)});
    const std::lock_guard lock(mutex);
    assert(by_list);
    const auto waiting = static_cast<size_t>(list_end - next_to_take);
    if (waiting >= kMaxListed) return false;
    if (waiting + 1 >= list.size()) {  // the batch that the caller holds keeps its place
      std::vector<BatchRange> larger(2 * list.size());
      for (uint64_t i = next_to_take; i < list_end; ++i) larger[i % larger.size()] = list[i % list.size()];
      list.swap(larger);
    }
    list[list_end++ % list.size()] = range;
    work.notify_one();
    return true;
  }

  SourcePtr source;
  LoaderOptions options;
  int64_t size;
  ShardedOrder order;  // with several shards
  std::vector<Slot> slots;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable work, done;
  uint64_t start_epoch = 0;
  int64_t start_position = 0;
  uint64_t next_to_read = 0, next_to_take = 0;
  uint64_t generation = 0;
  bool stopping = false;
  bool by_list = false;
  std::vector<BatchRange> list;  // a ring: batch number n is at n % size
  uint64_t list_end = 0;
  // What the source was told of: all batches before this one, so many examples since the last seek; and how many were read.
  uint64_t next_to_expect = 0;
  int64_t expected_examples = 0, read_examples = 0;
  const int64_t ahead;
  // Of next() without threads.
  std::vector<size_t> own_bytes;
  std::vector<std::byte*> own_pointers;
  std::vector<BatchRange> own_expected;
  std::vector<ReadKey> own_keys;
};

Loader::Loader(SourcePtr source, LoaderOptions options) : impl_(std::make_unique<Impl>(std::move(source), options)) {}
Loader::~Loader() { impl_->stop(); }
const DataSource& Loader::source() const { return *impl_->source; }
const Batch& Loader::next() { return impl_->next(); }
void Loader::seek(uint64_t epoch, int64_t position) { impl_->seek(epoch, position); }
void Loader::clear_list() { impl_->clear_list(); }
bool Loader::list(const BatchRange& range) { return impl_->append(range); }
size_t Loader::listed() const { return impl_->listed(); }

}  // namespace perigee
