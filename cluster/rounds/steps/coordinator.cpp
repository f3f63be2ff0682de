#include "cluster/rounds/steps/coordinator.h"

#include <algorithm>
#include <array>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {

void StepsCoordinator::on_start_epoch(StartEpoch* message) {
  if (!planted(Bug::leftovers_not_sent)) message->leftovers = c_.books.pool().returned();
  if (message->leftovers.size() > kMaxRanges) message->leftovers.resize(kMaxRanges);  // the rest comes back with the next Propose
  plan_ = {.leftovers = message->leftovers,
           .epoch = message->epoch,
           .position = message->position,
           .examples_per_epoch = message->per_epoch,
           .planned = message->planned,
           .committed = message->examples,
           .first_round = c_.target_round + 1,
           .global = message->global,
           .leaves = message->leaves};
}

void StepsCoordinator::open_round() {
  ExchangedCommits::open_round();
  planned_ = {};
  if (c_.options.max_rounds == 0 || c_.open < c_.options.max_rounds) planned_ = plan_.at(c_.open);
  participants_ = c_.members;
}

Received StepsCoordinator::on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) {
  static constexpr std::array kRoutes = {
      route<Ready, &StepsCoordinator::on_ready, StepsCoordinator, Node&>(Fence::none),
      route<Done, &StepsCoordinator::on_done, StepsCoordinator, Node&>(Fence::none),
  };
  return dispatch<StepsCoordinator, Node&, Fence>(kRoutes, *this, node, header, payload, [](Fence) { return true; });
}

// A contribution that is not finite. Ranks move by one, so that another worker computes those leaves.
void StepsCoordinator::on_ready(Node& node, const FrameHeader& h, Ready ready) {
  const bool early = h.round == c_.open + 1 && !planted(Bug::early_ready_lost) && (node.done || node.round == c_.open);
  if (early) {  // it does not wait for the commit
    node.early = std::move(ready);
    return;
  }
  if (c_.start_held || h.round != c_.open || ready.finite) {
    ++c_.dropped.unexpected;
    return;
  }
  const auto rank = std::find(c_.members.begin(), c_.members.end(), node.id) - c_.members.begin();
  const auto [first, last] = leaves_of(static_cast<int>(rank), static_cast<int>(c_.members.size()), plan_.leaves);
  const std::string what = "gave NaN or infinity";
  try_elsewhere(node, {planned_.ranges.begin() + first, planned_.ranges.begin() + last}, "quarantined", what, false);
  if (none_usable(what)) return;
  c_.rotate = 1;
  c_.form();
}

std::vector<Share> StepsCoordinator::shares() const {
  std::vector<Share> shares;
  const int size = static_cast<int>(c_.members.size());
  for (int rank = 0; rank < size; ++rank) {
    const auto [first, last] = leaves_of(rank, size, plan_.leaves);
    Share share{.id = c_.members[static_cast<size_t>(rank)]};
    share.ranges = joined({planned_.ranges.begin() + first, planned_.ranges.begin() + last});
    share.examples = examples_of(share.ranges);
    shares.push_back(std::move(share));
  }
  return shares;
}

bool StepsCoordinator::ends() const { return !c_.options.policy.synchronous(c_.progress()); }

}  // namespace perigee
