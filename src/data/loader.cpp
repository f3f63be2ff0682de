#include "src/data/loader.h"
#include "src/tensor/bytes.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace perigee {
namespace {

constexpr size_t kMaxExpected = 256;  // batches that a source is told of at once
constexpr int64_t kTouchedAhead = 6;  // shuffled examples come from far: several are on their way while one is read

SourcePtr checked(SourcePtr source, const LoaderOptions& options) {
  if (source->size() < 1)
    throw Error(ErrorKind::data,
                {.where = source->traits().description, .what = "the data source has no examples", .got = "0", .expected = "at least 1"});
  if (options.batch < 1)
    throw Error(ErrorKind::usage,
                {.where = source->traits().description, .what = "the batch size must be at least 1", .got = std::to_string(options.batch)});
  return source;
}

}  // namespace

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
      : source(std::move(given)),
        options(chosen),
        size(source->size()),
        traits(source->traits()),
        examples(size, chosen.seed, chosen.shuffle, chosen.shards, chosen.batch),
        epochs(examples, chosen.batch),
        list(examples) {
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

  void place(uint64_t sequence, Batch& batch) const {
    const BatchRange range = order->range(sequence);
    batch.epoch = range.epoch;
    batch.position = range.position;
    batch.size = range.size;
  }

  // Batch `sequence` is about to be read. What the source should hear of: it and the batches after it, as far as the source wants to
  // know and the loader knows, less what it has heard.
  void take_expected(uint64_t sequence, std::vector<BatchRange>& expected) {
    expected.clear();
    if (traits.read_ahead == 0) return;
    if (next_to_expect < sequence) next_to_expect = sequence, expected_examples = read_examples;
    while ((next_to_expect <= sequence || expected_examples - read_examples < traits.read_ahead) && next_to_expect < order->end() &&
           expected.size() < kMaxExpected) {
      expected.push_back(order->range(next_to_expect++));
      expected_examples += expected.back().size;
    }
    read_examples += order->range(sequence).size;
  }

  void tell_expected(const BatchOrder& by, const std::vector<BatchRange>& expected, std::vector<ReadKey>& keys) const {
    for (const BatchRange& range : expected) {
      keys.clear();
      for (int64_t i = 0; i < range.size; ++i) keys.push_back({.index = by.index(range, i), .epoch = range.epoch, .seed = options.seed});
      source->expect(keys);
    }
  }

  void fill(const BatchOrder& by, Batch& batch, std::vector<std::byte*>& slots_of_example, std::vector<size_t>& bytes) const {
    make_room(batch, batch.size);  // only a listed batch can be larger than those before
    const BatchRange range{.epoch = batch.epoch, .position = batch.position, .size = batch.size};
    for (int64_t i = 0; i < batch.size; ++i) batch.ids[static_cast<size_t>(i)] = by.index(range, i);
    if (options.ids_only) return;
    const auto key = [&](int64_t i) {
      return ReadKey{.index = batch.ids[static_cast<size_t>(i)], .epoch = batch.epoch, .seed = options.seed};
    };
    const auto touch = [&](int64_t i) {
      const ReadKey soon = key(i);
      source->expect({&soon, 1});
    };
    const int64_t ahead = traits.touches ? kTouchedAhead : batch.size;
    for (int64_t i = 0; i < std::min(ahead, batch.size) && traits.touches; ++i) touch(i);
    for (int64_t i = 0; i < batch.size; ++i) {
      if (i + ahead < batch.size) touch(i + ahead);
      for (size_t f = 0; f < bytes.size(); ++f) slots_of_example[f] = batch.fields[f].data<std::byte>() + static_cast<size_t>(i) * bytes[f];
      source->read(key(i), slots_of_example);
    }
  }

  std::vector<size_t> field_bytes() const {
    std::vector<size_t> bytes;
    for (const auto& field : source->fields()) bytes.push_back(byte_size(field));
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
  bool may_read() { return next_to_read < next_to_take + slots.size() - 1 && !slot_of(next_to_read).busy && next_to_read < order->end(); }

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
      const BatchOrder& by = *order;
      lock.unlock();
      std::exception_ptr error;
      try {
        tell_expected(by, expected, keys);
        const PhaseScope scope(times, TracePhase::read, slot.batch.size);
        fill(by, slot.batch, pointers, bytes);
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
    tell_expected(*order, own_expected, own_keys);
    place(next_to_take++, slot.batch);
    fill(*order, slot.batch, own_pointers, own_bytes);
    return slot.batch;
  }

  const Batch& next() {
    assert(next_to_take < order->end());
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
    const std::lock_guard lock(mutex);
    epochs.start_at(epoch, position);
    restart(epochs);
  }

  void restart(const BatchOrder& by) {
    order = &by;
    next_to_read = next_to_take = next_to_expect = 0;
    expected_examples = read_examples = 0;
    ++generation;
    for (auto& slot : slots) slot.ready = false;
    work.notify_all();
  }

  void clear_list() {
    const std::lock_guard lock(mutex);
    list.clear();
    restart(list);
  }

  size_t listed() {
    const std::lock_guard lock(mutex);
    return order == &list ? static_cast<size_t>(list.end() - next_to_take) : 0;
  }

  bool append(const BatchRange& range) {
    if (range.position < 0 || range.size < 1 || range.position > size - range.size)
      throw Error(ErrorKind::data, {.where = traits.description,
                                    .what = "a range of examples does not lie within an epoch",
                                    .got = std::to_string(range.position) + " + " + std::to_string(range.size),
                                    .expected = "within " + std::to_string(size)});
    const std::lock_guard lock(mutex);
    assert(order == &list);
    if (static_cast<size_t>(list.end() - next_to_take) >= kMaxListed) return false;
    list.append(range, next_to_take);
    work.notify_one();
    return true;
  }

  SourcePtr source;
  LoaderOptions options;
  int64_t size;
  const SourceTraits traits;
  const EpochPermutation examples;
  EpochOrder epochs;
  ListedOrder list;
  const BatchOrder* order = &epochs;  // one of the two
  std::vector<Slot> slots;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable work, done;
  uint64_t next_to_read = 0, next_to_take = 0;
  uint64_t generation = 0;
  bool stopping = false;
  // Announced to the source: all batches before this one, so many examples since the last seek; and how many were read.
  uint64_t next_to_expect = 0;
  int64_t expected_examples = 0, read_examples = 0;
  // Used by next() without threads.
  std::vector<size_t> own_bytes;
  std::vector<std::byte*> own_pointers;
  std::vector<BatchRange> own_expected;
  std::vector<ReadKey> own_keys;
};

Loader::Loader(SourcePtr source, LoaderOptions options) : impl_(std::make_unique<Impl>(checked(std::move(source), options), options)) {}
Loader::~Loader() { impl_->stop(); }
const DataSource& Loader::source() const { return *impl_->source; }
const Batch& Loader::next() { return impl_->next(); }
void Loader::seek(uint64_t epoch, int64_t position) { impl_->seek(epoch, position); }
void Loader::clear_list() { impl_->clear_list(); }
bool Loader::list(const BatchRange& range) { return impl_->append(range); }
size_t Loader::listed() const { return impl_->listed(); }

}  // namespace perigee
