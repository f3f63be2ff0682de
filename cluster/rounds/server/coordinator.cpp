#include "cluster/rounds/server/coordinator.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {

bool ServerCoordinator::holds_results(const Node& node) const { return node.server; }

bool ServerCoordinator::lacks_server() const { return c_.server() == 0; }

std::string ServerCoordinator::why_not(const Join& join) const {
  if (!join.server) return "";
  const bool another = std::any_of(c_.nodes.begin(), c_.nodes.end(), [&](const auto& n) { return n.second.server && n.first != join.id; });
  return another ? "there is a server already" : "";
}

// The base of what a worker trains is the committed line's, and the worker's optimiser has seen nothing else.
bool ServerCoordinator::base_is_committed(const Node& node) const {
  if (planted(Bug::void_base_kept)) return true;
  const std::optional<uint64_t> known = c_.books.hash_of(node.round);
  return node.round <= c_.target_round && known && *known == node.hash;
}

bool ServerCoordinator::may_keep_work(const Node& node) const { return node.server || base_is_committed(node); }

// When a generation forms: a worker goes on from what it holds, or begins afresh and pulls.
void ServerCoordinator::admit(Node& node) {
  const bool began = node.hash != 0;
  const bool kept = node.pending.empty() || !node.leased.empty();
  LeasePool pool = c_.books.pool();
  int64_t open = 0;
  for (const Range& range : kept ? std::vector<Range>{} : node.pending) open += pool.mark_done(range);
  // The server has merged what the worker had staged, and its answer is lost. Another worker's share of it, or what an elastic worker
  // should have moved by, cannot be told.
  const bool counted = !kept && open == 0, known = node.stayed && !c_.options.policy.elastic;
  if (began && (!base_is_committed(node) || (counted && !known))) return begin_afresh(node);
  if (kept || planted(Bug::counted_untold)) return;
  if (!counted) return c_.drop_local_work(node);
  node.state = Node::State::healing;
  node.heal_ns = c_.clock.now_ns();
  // Should the rounds up to this one become void, its optimiser has seen work that is not counted: it stands for them.
  c_.tell(node, CatchUp{.donor = node.id, .round = c_.target_round, .hash = c_.target_hash, .keep_local = true}, c_.target_round);
}

void ServerCoordinator::begin_afresh(Node& node) {
  c_.event("began_afresh", &node, "what it trained from round " + std::to_string(node.round) + " on is not known to be in the result",
           "it begins again with the server's parameters");
  node.pending.clear();
  c_.take_back(node);
  node.state = Node::State::healing;
  node.heal_ns = c_.clock.now_ns();
  c_.tell(node, CatchUp{.donor = 0, .round = -1}, -1);
}

void ServerCoordinator::open_round() {
  assert(c_.phase == CoordinatorCore::Phase::running && c_.open == c_.books.round() + 1);
  c_.opened_ns = c_.clock.now_ns();
  last_server_ = c_.server();
}

Received ServerCoordinator::on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) {
  static constexpr std::array kRoutes = {
      route<Ready, &ServerCoordinator::on_ready, ServerCoordinator, Node&>(Fence::none),
      route<Served, &ServerCoordinator::on_served, ServerCoordinator, Node&>(Fence::none),
  };
  return dispatch<ServerCoordinator, Node&, Fence>(kRoutes, *this, node, header, payload, [](Fence) { return true; });
}

void ServerCoordinator::on_served(Node& node, const FrameHeader& h, Served served) {
  if (!node.server || h.round != c_.open || !start_allowed()) {
    ++c_.dropped.unexpected;
    return;
  }
  if (const WorkerId liar = claims_too_much(served)) {
    // Its numbers are in the server's parameters already: both begin again.
    const WorkerId id = node.id;
    if (liar != id) c_.evict(liar, CoordinatorCore::Eviction::for_good, "it claims work that it was not given");
    if (c_.phase != CoordinatorCore::Phase::stopped && c_.nodes.contains(id))
      c_.evict(id, CoordinatorCore::Eviction::for_good, "its parameters hold work that no lease covers");
    return;
  }
  node.round = c_.open;
  node.hash = served.hash;
  remember(
      {.round = c_.open, .hash = served.hash, .workers = served.workers, .examples_after = served.examples_after, .shares = served.shares},
      served.figures.bytes_up);
  book_shares(served);
  int64_t examples = 0;
  for (const Share& share : served.shares) examples += share.examples;
  const std::vector<Share> shares = served.shares;
  if (c_.options.trace) c_.tell_round(served.figures, examples, shares);
  c_.books.commit(c_.generation, c_.open, served.hash, std::move(served.shares));
  c_.skipped_in_a_row = 0;
  c_.target_round = c_.open++;
  c_.target_hash = served.hash;
  c_.opened_ns = c_.clock.now_ns();
  c_.last = {.examples = examples, .figures = served.figures};
  c_.events.on_round(c_.books.round(), c_.generation, c_.books.examples_done(), static_cast<int>(c_.trainers()), served.figures, examples);
  if (c_.phase != CoordinatorCore::Phase::running || diverged(served.figures, examples, static_cast<int>(c_.trainers()))) return;
  after_commit(shares);
}

// Each worker's progress in the round.
void ServerCoordinator::book_shares(const Served& served) {
  int64_t examples = 0;
  for (size_t i = 0; i < served.shares.size(); ++i) {
    const Share& share = served.shares[i];
    Node& trainer = c_.nodes.at(share.id);
    examples += share.examples;
    trainer.staleness = served.staleness[i];
    if (!planted(Bug::leases_kept_after_commit)) trainer.leased = without(trainer.leased, share.ranges);
    forget_failures(share.ranges);
  }
  for (const Share& share : served.shares)
    c_.nodes.at(share.id).share = static_cast<double>(share.examples) / static_cast<double>(examples);
  if (served.discarded > 0)
    c_.event("too_stale", nullptr,
             std::to_string(served.discarded) + " contributions were more than " + std::to_string(c_.options.policy.max_staleness) +
                 " rounds old",
             "their workers train them again");
}

// 0: all is as it was given out. Else who says more; the server itself, if what it says does not fit together.
WorkerId ServerCoordinator::claims_too_much(const Served& served) const {
  std::vector<Range> all;
  for (const Share& share : served.shares) {
    const auto it = c_.nodes.find(share.id);
    if (it == c_.nodes.end() || !it->second.member || it->second.server) return c_.server();
    if (!without(share.ranges, it->second.leased).empty() || share.examples != examples_of(share.ranges) || share.examples <= 0)
      return share.id;
    all.insert(all.end(), share.ranges.begin(), share.ranges.end());
  }
  return all.empty() || !disjoint(all) || served.hash == 0 || served.staleness.size() != served.shares.size() ? c_.server() : 0;
}

void ServerCoordinator::after_commit(const std::vector<Share>& shares) {
  c_.deliver_image();
  if (c_.phase != CoordinatorCore::Phase::running) return;
  c_.tell(c_.nodes.at(c_.server()), Commit{.hash = c_.target_hash, .synced = c_.safe_round()}, c_.target_round);
  if (c_.enter_border()) {
    if (c_.form_wanted) c_.form_if_calm();
    return;
  }
  replay_early();
  if (c_.phase != CoordinatorCore::Phase::running) return;
  for (const Share& share : shares)
    if (const auto it = c_.nodes.find(share.id); it != c_.nodes.end()) leases_.top_up(it->second);
}

// A lease that a worker could not use. Its earlier pushes are booked first, or they would go back too.
void ServerCoordinator::on_ready(Node& node, const FrameHeader&, Ready ready) {
  if (!start_allowed() || node.state != Node::State::training || ready.finite || node.server) {
    ++c_.dropped.unexpected;
    return;
  }
  if (ready.base > c_.books.round() && !planted(Bug::served_unordered)) {
    node.early = std::move(ready);
    return;
  }
  if (!disjoint(ready.ranges) || !without(ready.ranges, node.leased).empty())
    return c_.evict(node.id, CoordinatorCore::Eviction::to_join_again, "it claims work that it was not given");
  const std::string what = "gave NaN or infinity";
  try_elsewhere(node, ready.ranges, "quarantined", what, true);
  if (none_usable(what)) return;
  c_.drop_local_work(node);
  if (!c_.enter_border()) leases_.top_up_all();
}

}  // namespace perigee
