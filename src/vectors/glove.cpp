#include "src/vectors/glove.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/core/thread_team.h"
#include "src/vectors/draws.h"
#include "src/vectors/progress_clock.h"

namespace perigee {
namespace {

constexpr size_t kMostPairs = size_t{1} << 30;
constexpr uint64_t kFirstGloveValues = 0x476C6F56, kOrder = 0x4F726472;

// Sums by key, in a table that is at most two thirds full.
class PairSums {
 public:
  void add(uint64_t key, float weight) {
    if ((used_ + 1) * 3 > slots_.size() * 2) grow();
    Slot& slot = slots_[place_of(key)];
    if (slot.key == kNone) slot.key = key, ++used_;
    slot.weight += weight;
  }
  template <class Take>
  void each(Take&& take) const {
    for (const Slot& slot : slots_)
      if (slot.key != kNone) take(slot.key, slot.weight);
  }
  size_t size() const { return used_; }
  void clear() { slots_ = {}, used_ = 0; }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct Slot {
    uint64_t key = kNone;
    float weight = 0;
  };
  size_t place_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = mix_bits(key) & mask;
    while (slots_[at].key != kNone && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    if (used_ > kMostPairs)
      throw Error(ErrorKind::resources, {.what = "too many different words stand near each other",
                                         .expected = "at most 2^30 pairs",
                                         .hint = "raise min_count, or set max_words"});
    std::vector<Slot> old(std::max<size_t>(1024, slots_.size() * 2));
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.key != kNone) slots_[place_of(slot.key)] = slot;
  }
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

void count_part(const SequenceBlock& block, int64_t window, PairSums& sums) {
  for (size_t s = 0; s < block.ends.size(); ++s) {
    const std::span<const int32_t> sequence = block.sequence(s);
    for (size_t i = 1; i < sequence.size(); ++i)
      for (size_t distance = 1; distance <= std::min<size_t>(i, static_cast<size_t>(window)); ++distance) {
        const auto a = static_cast<uint64_t>(sequence[i]), b = static_cast<uint64_t>(sequence[i - distance]);
        sums.add(std::min(a, b) << 32 | std::max(a, b),
                 (a == b ? 2 : 1) / static_cast<float>(distance));  // an element is near itself twice
      }
  }
}

}  // namespace

// Parts are dealt out and summed in one order for each number of threads, so that sums have the same bits.
std::vector<Together> count_together(const Sequences& sequences, int64_t window, int threads, const std::atomic<bool>* stop) {
  const int64_t parts = sequences.parts();
  ThreadTeam team(static_cast<int>(std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, parts))));
  std::vector<PairSums> all(static_cast<size_t>(team.size()));
  team.run([&](Team& self) {
    SequenceBlock block;
    for (int64_t part = self.rank(); part < parts && !(stop != nullptr && *stop); part += self.size()) {
      sequences.read(part, 0, block);
      count_part(block, window, all[static_cast<size_t>(self.rank())]);
    }
  });
  std::vector<Together> pairs;
  for (size_t i = 1; i < all.size(); ++i) {
    all[i].each([&](uint64_t key, float weight) { all[0].add(key, weight); });
    all[i].clear();
  }
  pairs.reserve(all[0].size());
  all[0].each([&](uint64_t key, float weight) {
    pairs.push_back({static_cast<int32_t>(key >> 32), static_cast<int32_t>(key & 0xFFFFFFFF), weight});
  });
  all[0].clear();
  std::sort(pairs.begin(), pairs.end(), [](const Together& x, const Together& y) { return x.a != y.a ? x.a < y.a : x.b < y.b; });
  return pairs;
}

GloveTraining::GloveTraining(int64_t elements, const VectorOptions& options)
    : options_(options),
      elements_(elements),
      words_(elements, options.size + 1),
      contexts_(elements, options.size + 1),
      word_squares_(elements, options.size + 1),
      context_squares_(elements, options.size + 1),
      loops_(pair_loops(host_isa())) {
  const PhiloxKey key = philox_key(options.seed, kFirstGloveValues);
  for (const auto& [rows, side] : {std::pair(&words_, 0u), {&contexts_, 1u}})
    for (int64_t row = 0; row < elements; ++row)
      for (int64_t i = 0; i <= options.size; ++i) {
        const PhiloxBlock block = philox_for_example(key, side, static_cast<uint64_t>(row), static_cast<uint32_t>(i / 4));
        rows->row(row)[i] = (uniform_from_bits(block.lane[i % 4]) - 0.5f) / static_cast<float>(options.size + 1);
      }
  for (VectorRows* squares : {&word_squares_, &context_squares_}) std::fill_n(squares->row(0), squares->rows * squares->width, 1.f);
}

// Returns the square of the error, weighted.
double GloveTraining::step(int64_t word, int64_t context, double logarithm, double factor) {
  const int64_t size = options_.size;
  float *w = words_.row(word), *c = contexts_.row(context), *ws = word_squares_.row(word), *cs = context_squares_.row(context);
  float product = 0;
  loops_.products(c, 1, words_.width, w, &product);
  product += w[size] + c[size] - w[size] * c[size];  // biases are added, not multiplied
  const double error = static_cast<double>(product) - logarithm;
  const auto scaled = static_cast<float>(factor * error);
  if (!std::isfinite(scaled)) return 0;
  const auto rate = static_cast<float>(options_.lr);
  for (int64_t i = 0; i < size; ++i) {
    const float gw = scaled * c[i] * rate, gc = scaled * w[i] * rate;
    w[i] -= gw / std::sqrt(ws[i]), c[i] -= gc / std::sqrt(cs[i]);
    ws[i] += gw * gw, cs[i] += gc * gc;
  }
  const float g = scaled * rate;
  w[size] -= g / std::sqrt(ws[size]), c[size] -= g / std::sqrt(cs[size]);
  ws[size] += g * g, cs[size] += g * g;
  return factor * error * error;
}

bool GloveTraining::run(std::vector<Together> pairs, const VectorTraining::Report& report, const std::atomic<bool>* stop) {
  PartDraws draws(options_.seed ^ kOrder, 0, 0);
  for (size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[static_cast<size_t>(draws.bits() % i)]);
  const int threads = options_.deterministic ? 1 : static_cast<int>(options_.threads);
  ThreadTeam team(threads);
  const auto count = static_cast<int64_t>(pairs.size());
  ProgressClock clock(count * options_.epochs, 2);
  std::atomic<int64_t> done{0};
  std::atomic<bool> stopped{false};
  std::vector<double> losses(static_cast<size_t>(threads));
  team.run([&](Team& self) {
    const int64_t from = count * self.rank() / self.size(), to = count * (self.rank() + 1) / self.size();
    for (int64_t epoch = 0; epoch < options_.epochs && !stopped; ++epoch) {
      double& loss = losses[static_cast<size_t>(self.rank())];
      loss = 0;
      for (int64_t i = from; i < to; ++i) {
        const Together& pair = pairs[static_cast<size_t>(i)];
        const double logarithm = std::log(static_cast<double>(pair.weight));
        const double factor = std::min(1.0, std::pow(static_cast<double>(pair.weight) / options_.glove_most, options_.glove_power));
        loss += step(pair.a, pair.b, logarithm, factor);
        if (pair.a != pair.b) loss += step(pair.b, pair.a, logarithm, factor);
        if ((i - from) % 4096 != 4095 && i + 1 != to) continue;
        done += (i - from) % 4096 + 1;
        if (stop != nullptr && *stop) stopped = true;
        if (stopped) return;
        if (self.rank() == 0 && report && clock.due()) report(clock.at(done, options_.lr, loss / static_cast<double>(i - from + 1)));
      }
    }
  });
  loss_ = 0;
  for (const double loss : losses) loss_ += loss / static_cast<double>(std::max<int64_t>(1, count));
  if (report && !stopped) report(clock.at(done, options_.lr, loss_));
  return !stopped;
}

VectorRows GloveTraining::vectors() const {
  VectorRows sum(elements_, options_.size);
  for (int64_t row = 0; row < elements_; ++row)
    for (int64_t i = 0; i < options_.size; ++i) sum.row(row)[i] = words_.row(row)[i] + contexts_.row(row)[i];
  return sum;
}

}  // namespace perigee
