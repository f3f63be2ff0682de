// Accounting of policies with exchanges inside groups: `bounded`. What a group has averaged is in all of its members' parameters; when one of
// them is lost, its examples are trained anew although the others hold part of what it had made of them, and when a change of membership
// breaks an exchange off, some members may hold the mean and others not. Both are booked, from above.
#include <algorithm>

#include "cluster/membership/coordinator_impl.h"
#include "cluster/rounds/local/inner_plan.h"

namespace perigee {

void Coordinator::Impl::note_inexact(const Node& node, std::vector<Range> ranges, const std::string& why) {
  if (inner_exchanges(options.policy) == 0 || standing || members.size() < 2 || ranges.empty()) return;
  const int64_t examples = examples_of(ranges);
  inexact += examples;
  books.inexact(generation, joined(std::move(ranges)), node.id, why);
  event("inexact", &node, why, "up to " + std::to_string(examples) + " examples have more or less than their share of the parameters");
}

// What it can have trained of the open round: at most as many steps as a round has.
void Coordinator::Impl::note_lost_work(const Node& node) {
  if (phase == Phase::forming) return note_inexact(node, node.formed ? node.pending : std::vector<Range>{}, "it was lost");
  if (phase != Phase::running) return;
  if (node.ready) return note_inexact(node, node.ready->ranges, "it was lost");
  std::vector<Range> begun;
  int64_t left = options.policy.every * local_batch();
  for (Range range : node.leased) {
    range.count = std::min(range.count, left);
    if (range.count > 0) begun.push_back(range);
    left -= range.count;
  }
  note_inexact(node, std::move(begun), "it was lost");
}

// Everybody has said what it holds, and whose exchange was broken off.
void Coordinator::Impl::note_broken_groups() {
  for (const WorkerId id : members)
    if (broken_groups.contains(id)) note_inexact(nodes.at(id), nodes.at(id).pending, "the exchange inside its group was broken off");
  broken_groups.clear();
}

}  // namespace perigee
