// The simulator's replica of synchronous steps whose sums are made in two passes, or of which a round has several.
#include <algorithm>

#include "cluster/simulator/fake_replica.h"

namespace perigee::sim {
namespace {

constexpr int kMostRepeats = 3;

}  // namespace

void FakeReplica::cut_in_passes() {
  const size_t half = static_cast<size_t>(layout_.sums) * 4 / 2 / 8 * 8;
  buckets_ = {{0, half}, {half, layout_.bytes()}};
  layout_.passes = 2;
}

// A round adds up one to three rows. The last has each example once, the one before it twice, and so on, so that none can be taken for another.
float repeats_of(int64_t round) { return static_cast<float>(1 + round % kMostRepeats); }

void FakeReplica::set_up_repeats() {
  layout_.repeated = true;
  layout_.passes = kMostRepeats + 1;
  buckets_.assign(static_cast<size_t>(layout_.passes), {0, layout_.bytes()});
}

void FakeReplica::repeat(const PartOrder& order) {
  later(options_.example_ms, [this, order, token = token_] {
    if (token != token_) return;
    float* const sums = reinterpret_cast<float*>(exchange_row(0).data());
    const float times = repeats_of(order.round) - static_cast<float>(order.pass) + 1;
    double counted = 0;
    for (int64_t i = 0; i < options_.examples; ++i) counted += static_cast<double>(sums[i]);
    if (counted != static_cast<double>(order.examples) * static_cast<double>(times))
      complain_("the sum before part " + std::to_string(order.pass) + " of round " + std::to_string(order.round) + " is not complete");
    if (times <= 1) return events_->on_parts_over(order.round);
    Contribution again;
    stage_gradient(repeated_, times - 1, &again);
    events_->on_bucket(order.round, static_cast<uint32_t>(order.pass));
  });
}

void FakeReplica::make_part(const PartOrder& order) {
  if (training_) complain_("a part was asked for while a gradient is computed");
  if (layout_.repeated) return repeat(order);
  if (training_ || order.pass != 1 || layout_.passes != 2) complain_("a part was asked for that there is not");
  later(0.2, [this, order, token = token_] {
    if (token != token_) return;
    const std::span<std::byte> row = exchange_row(0);
    const auto half = static_cast<ptrdiff_t>(buckets_[0].end);
    made_of_.assign(row.begin(), row.begin() + half);
    std::copy(held_back_.begin(), held_back_.end(), row.begin() + half);
    events_->on_bucket(order.round, 1);
  });
}

}  // namespace perigee::sim
