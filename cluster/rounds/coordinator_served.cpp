// Served rounds (asynchronous policies): a server holds the parameters, workers push to it by themselves, and what it says it has made is
// booked here, in its order. Only the server is a holder of results. What workers hold is a base that they train from: it must be of the
// committed line, or they begin afresh.
#include <algorithm>
#include <cassert>

#include "cluster/membership/coordinator_impl.h"
#include "cluster/planted.h"

namespace perigee {

bool Coordinator::Impl::holds_results(const Node& node) const { return !options.policy.served || node.server; }

size_t Coordinator::Impl::trainers() const {
  return static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](WorkerId id) { return !nodes.at(id).server; }));
}

WorkerId Coordinator::Impl::server() const {
  for (const WorkerId id : members)
    if (nodes.at(id).server) return id;
  return 0;
}

// Empty: it may come.
std::string Coordinator::Impl::why_no_server(const Join& join) const {
  if (!join.server) return "";
  if (!options.policy.served) return "the policy needs no server";
  const bool another = std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return n.second.server && n.first != join.id; });
  return another ? "there is a server already" : "";
}

// The base of what a worker trains is the committed line's, and the worker's optimiser has seen nothing else.
bool Coordinator::Impl::base_is_committed(const Node& node) const {
  if (planted(Bug::void_base_kept)) return true;
  const std::optional<uint64_t> known = books.hash_of(node.round);
  return node.round <= target_round && known && *known == node.hash;
}

// When a generation forms: a worker goes on from what it holds, or begins afresh and pulls.
void Coordinator::Impl::admit_trainer(Node& node) {
  const bool began = node.hash != 0;
  const bool kept = node.pending.empty() || !node.leased.empty();
  LeasePool pool = books.pool();
  int64_t open = 0;
  for (const Range& range : kept ? std::vector<Range>{} : node.pending) open += pool.mark_done(range);
  // The server has merged what the worker had staged, and its answer is lost. Somebody else's share of it, or what an elastic worker
  // should have moved by, cannot be told.
  const bool counted = !kept && open == 0, known = node.stayed && !options.policy.elastic;
  if (began && (!base_is_committed(node) || (counted && !known))) {
    event("began_afresh", &node, "what it trained from round " + std::to_string(node.round) + " on is not known to be in the result",
          "it pulls the server's parameters");
    node.pending.clear();
    take_back(node);
    node.state = Node::State::healing;
    node.heal_ns = clock.now_ns();
    return tell(node, Heal{.donor = 0, .round = -1}, -1);
  }
  if (kept || planted(Bug::counted_untold)) return;
  if (!counted) return drop_local_work(node);
  node.state = Node::State::healing;
  node.heal_ns = clock.now_ns();
  // Should the rounds up to this one become void, its optimiser has seen what nobody counts: it stands for them.
  tell(node, Heal{.donor = node.id, .round = target_round, .hash = target_hash, .keep_local = true}, target_round);
}

void Coordinator::Impl::on_served(Node& node, const FrameHeader& h, Served served) {
  if (!node.server || h.round != open || !go_allowed()) {
    ++dropped.unexpected;
    return;
  }
  if (const WorkerId liar = claims_too_much(served)) {
    // Its numbers are in the server's parameters already: both begin again.
    const WorkerId id = node.id;
    if (liar != id) evict(liar, "worker_lost", "it claims work that it was not given", false);
    if (phase != Phase::stopped && nodes.contains(id)) evict(id, "worker_lost", "its parameters hold work that nobody was given", false);
    return;
  }
  node.round = open;
  node.hash = served.hash;
  int64_t examples = 0;
  for (size_t i = 0; i < served.shares.size(); ++i) {
    const Share& share = served.shares[i];
    Node& trainer = nodes.at(share.id);
    examples += share.examples;
    trainer.staleness = served.staleness[i];
    if (!planted(Bug::leases_kept_after_commit)) trainer.leased = without(trainer.leased, share.ranges);
    forget_failures(share.ranges);
  }
  for (const Share& share : served.shares) nodes.at(share.id).share = static_cast<double>(share.examples) / static_cast<double>(examples);
  if (served.discarded > 0)
    event(
        "too_stale", nullptr,
        std::to_string(served.discarded) + " contributions were more than " + std::to_string(options.policy.max_staleness) + " rounds old",
        "their workers train them again");
  const std::vector<Share> shares = served.shares;
  if (options.trace) tell_round(served.figures, examples, shares);
  books.commit(generation, open, served.hash, std::move(served.shares));
  skipped_in_a_row = 0;
  target_round = open++;
  target_hash = served.hash;
  opened_ns = clock.now_ns();
  last = {.examples = examples, .figures = served.figures};
  events.on_round(books.round(), generation, books.examples_done(), static_cast<int>(trainers()), served.figures, examples);
  if (phase != Phase::running || diverged(served.figures, examples, static_cast<int>(trainers()))) return;
  after_served(shares);
}

// 0: all is as it was given out. Else who says more; the server itself, if what it says does not fit together.
WorkerId Coordinator::Impl::claims_too_much(const Served& served) const {
  std::vector<Range> all;
  for (const Share& share : served.shares) {
    const auto it = nodes.find(share.id);
    if (it == nodes.end() || !it->second.member || it->second.server) return server();
    if (!without(share.ranges, it->second.leased).empty() || share.examples != examples_of(share.ranges) || share.examples <= 0)
      return share.id;
    all.insert(all.end(), share.ranges.begin(), share.ranges.end());
  }
  return all.empty() || !disjoint(all) || served.hash == 0 || served.staleness.size() != served.shares.size() ? server() : 0;
}

void Coordinator::Impl::after_served(const std::vector<Share>& shares) {
  deliver_image();
  if (phase != Phase::running) return;
  tell(nodes.at(server()), Commit{.hash = target_hash, .synced = safe_round()}, target_round);
  if (enter_border()) {
    if (form_wanted) form_if_calm();
    return;
  }
  replay_unusable();
  if (phase != Phase::running) return;
  for (const Share& share : shares)
    if (const auto it = nodes.find(share.id); it != nodes.end()) top_up(it->second);
}

// What a worker could not use. It had pushed what came before: that is booked first, or it would go back, too.
void Coordinator::Impl::on_unusable(Node& node, Ready ready) {
  if (!go_allowed() || node.state != Node::State::training || ready.finite || node.server) {
    ++dropped.unexpected;
    return;
  }
  if (ready.base > books.round() && !planted(Bug::served_unordered)) {
    node.early = std::move(ready);
    return;
  }
  if (!disjoint(ready.ranges) || !without(ready.ranges, node.leased).empty())
    return evict(node.id, "worker_lost", "it claims work that it was not given", true);
  leave_out(node, ready.ranges, "quarantined", "gave NaN or infinity");
}

void Coordinator::Impl::replay_unusable() {
  const uint64_t now_open = generation;
  for (const WorkerId id : std::vector<WorkerId>(members)) {
    if (phase != Phase::running || generation != now_open) return;
    Node& node = nodes.at(id);
    if (!node.early || node.early->base > books.round()) continue;
    Ready ready = std::move(*node.early);
    node.early.reset();
    on_unusable(node, std::move(ready));
  }
}

}  // namespace perigee
