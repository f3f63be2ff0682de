// The simulator's replica of exchanges inside groups.
#include <cstring>
#include <numeric>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/simulator/fake_replica.h"

namespace perigee::sim {

void FakeReplica::apply_inner(const InnerApplyOrder& order) {
  if (training_) complain_("an inner exchange is applied while training");
  const int refused = take_inner(order);
  later(options_.apply_ms, [this, order, refused] { events_->on_inner_applied(order.round, order.index, refused); });
}

// Its parameters are what it has trained itself, so that the round's sums stay what the ledger says; what the group's exchange came to is
// for the oracle. The number of a payload that is none, or -1.
int FakeReplica::take_inner(const InnerApplyOrder& order) {
  const std::span<std::byte> row = exchange_row(0);
  const ExchangeTail tail = read_exchange_tail(layout_, row);
  std::vector<float> sums(contents_.sums.size());
  if (inner_payloads_) {
    for (size_t i = 0; i < order.payloads.size(); ++i) {
      int64_t examples = 0;
      if (!order.payloads[i] || !inner_payloads_->add(*order.payloads[i], sums, &examples)) return static_cast<int>(i);
    }
    inner_payloads_->settle(local_examples_ > 0 && inner_staged_ == local_);
    check_conserved();
  } else {
    std::memcpy(sums.data(), row.data(), sums.size() * 4);
  }
  const double counted = std::accumulate(sums.begin(), sums.begin() + options_.examples, 0.0);
  if (counted != static_cast<double>(tail.examples))
    complain_("inner exchange " + std::to_string(order.index) + " of round " + std::to_string(order.round) + " sums " +
              std::to_string(counted) + " examples; its tail says " + std::to_string(tail.examples));
  if (inner_watch_) inner_watch_(order, inner_staged_.sums, sums);
  return -1;
}

}  // namespace perigee::sim
