// The simulator's replica with a parameter server: the server, and a worker that takes over what it has.
#include <memory>

#include "cluster/simulator/fake_replica.h"

namespace perigee::sim {

void FakeReplica::serve(const ApplyOrder& order) {
  if (!holds_ || training_ || staged_local_) complain_("a server that trains, or holds nothing");
  if (order.round != round_ + (order.payloads.empty() ? 0 : 1)) complain_("a server skips a round");
  later(options_.apply_ms, [this, order] {
    if (!order.payloads.empty()) {
      if (const std::optional<size_t> refused = add_merged(order)) return events_->on_payload_refused(order.round, *refused);
      round_ = order.round;
      if (watch_) watch_(order.round);
    }
    ++steps_;
    events_->on_served(round_, contents_.hash(), std::make_shared<const std::vector<std::byte>>(image_of(round_, contents_)), false);
  });
}

void FakeReplica::take(const TakeOrder& order) {
  if (training_) complain_("values are taken while training");
  if (!order.counted) drop();
  later(options_.apply_ms, [this, order] {
    if (order.bytes) {
      if (!read_image(*order.bytes, &round_, &contents_) || round_ != order.round) complain_("values of another round");
      holds_ = true;
    }
    payloads_->settle(order.counted && staged_local_);
    check_conserved();
    forget_local();
    events_->on_taken(order.round, true);
  });
}

}  // namespace perigee::sim
