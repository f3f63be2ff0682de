// The simulator's replica of synchronous steps whose sums are made in two passes.
#include <algorithm>

#include "cluster/simulator/fake_replica.h"

namespace perigee::sim {

void FakeReplica::cut_in_passes() {
  const size_t half = static_cast<size_t>(layout_.sums) * 4 / 2 / 8 * 8;
  buckets_ = {{0, half}, {half, layout_.bytes()}};
  layout_.passes = 2;
}

void FakeReplica::make_part(const PartOrder& order) {
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
