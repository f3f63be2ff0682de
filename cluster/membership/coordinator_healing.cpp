// From the result that all are to go on from to all of them holding it: a member that lacks it loads it from another, or from here.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr int kMaxHeals = 3;

}  // namespace

void CoordinatorCore::begin_healing() {
  for (const WorkerId id : members) nodes.at(id).state = Node::State::training;
  for (const WorkerId id : members) {
    Node& node = nodes.at(id);
    if (!rounds->holds_results(node)) {
      rounds->admit(node);
      continue;
    }
    const bool holds = target_hash != 0 && node.round == target_round && node.hash == target_hash;
    if (!holds && !planted(Bug::no_heal)) heal(node, !node.leased.empty());
    if (phase != Phase::forming) return;
    if (holds && !node.pending.empty() && node.leased.empty()) drop_local_work(node);
  }
  check_healed();
}

// Local work that a worker has begun stays its own if no other has it; everything else is open again. Streams may change hands now, and their
// next worker begins where the last result is.
void CoordinatorCore::settle_pending() {
  for (const WorkerId id : members) {
    Node& node = nodes.at(id);
    assert(node.leased.empty());
    node.lease_last = false;
    node.ready.reset();
    node.done.reset();
    if (node.pending.empty() || options.policy.synchronous(progress())) continue;
    if (std::exchange(node.spoiled, false) || (options.streams > 0 && !planted(Bug::streams_kept))) continue;
    if (!rounds->may_keep_work(node)) continue;
    const bool too_old = !options.policy.elastic && target_round - node.base > options.policy.max_staleness;
    const bool of_void = !options.policy.served && node.base > target_round;  // a server's rounds ask by themselves
    if (too_old || of_void || !disjoint(node.pending)) continue;
    if (books.pool().claim(node.pending)) node.leased = node.pending;
  }
}

// `donor` is picked in turn, so that many who need an image do not all ask the same worker.
void CoordinatorCore::heal(Node& node, bool keep_local) {
  assert(node.member);
  if (rounds->heals(node)) return;
  std::vector<WorkerId> donors;
  for (const WorkerId id : target_hash != 0 ? members : std::vector<WorkerId>{}) {
    const Node& other = nodes.at(id);
    const bool holds = phase == Phase::running
                           ? other.round >= target_round  // also while it drops its local work
                           : other.round == target_round && other.hash == target_hash && other.state == Node::State::training;
    if (id != node.id && holds && rounds->holds_results(other)) donors.push_back(id);
  }
  // A worker that did not hand over a moment ago, or could not, is asked last.
  const auto failed = [&](WorkerId id) { return doubted(node.id, id); };
  if (!std::all_of(donors.begin(), donors.end(), failed)) std::erase_if(donors, failed);
  assert(phase == Phase::forming || !donors.empty());
  CatchUp order{.round = target_round, .hash = target_hash, .keep_local = keep_local};
  if (!donors.empty() && (target_round >= 0 || node.heals > 0)) {
    order.donor = donors[static_cast<size_t>(node.id) % donors.size()];
  } else if (target_round >= 0) {
    // Only this coordinator holds it: one worker gets it from here, the others from that one.
    const bool first = std::none_of(members.begin(), members.end(), [&](WorkerId id) {
      return rounds->holds_results(nodes.at(id)) && nodes.at(id).state == Node::State::healing;
    });
    node.state = Node::State::healing;
    node.heal_ns = 0;
    if (!first) return;  // waits for a donor
  }
  node.state = Node::State::healing;
  node.heal_ns = clock.now_ns();
  if (!keep_local) take_back(node);
  tell(node, order, target_round);
}

void CoordinatorCore::on_caught_up(Node& node, const CaughtUp& healed) {
  node.round = healed.round;
  node.hash = healed.hash;
  node.state = Node::State::training;
  node.heal_ns = 0;
  if (phase == Phase::running) return catch_up(node);
  if (!rounds->holds_results(node)) return check_healed();
  if (rounds->on_healed(node, healed)) return;
  if (healed.ok && target_hash == 0 && node.round == target_round) {
    target_hash = node.hash;  // the first to have made it
    books.set_hash(target_hash);
  }
  if (!healed.ok || node.round != target_round || node.hash != target_hash) {
    if (++node.heals > kMaxHeals)
      return evict(node.id, Eviction::to_join_again, "it could not load the result of round " + std::to_string(target_round));
    if (node.hash != target_hash && node.round == target_round)
      event("hash_mismatch", &node, "its result of round " + std::to_string(node.round) + " differs from the others'", "it loads theirs");
    heal(node, false);
  }
  check_healed();
}

// A worker that missed a round has loaded what the others hold, or dropped its work.
void CoordinatorCore::catch_up(Node& node) {
  node.ready.reset();
  if (!rounds->holds_results(node)) return rounds->top_up_all();
  if (node.round < target_round) return heal(node, !node.leased.empty());
  if (node.round == target_round && node.hash != target_hash) return form();
  rounds->advance();
}

void CoordinatorCore::check_healed() {
  if (phase != Phase::forming) return;
  bool all = true;
  for (const WorkerId id : members) {
    Node& node = nodes.at(id);
    if (node.state == Node::State::training) continue;
    all = false;
    if (node.heal_ns == 0 && target_hash != 0) heal(node, false);  // it was waiting until a worker holds the result
  }
  if (all) ready_to_go();
}

void CoordinatorCore::check_healing(uint64_t now) {
  std::vector<WorkerId> late;
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (node.state == Node::State::healing && node.heal_ns != 0 && now > node.heal_ns &&
        now - node.heal_ns > 10 * ns(options.policy.deadline_ms))
      late.push_back(id);
  }
  for (const WorkerId id : late)
    if (phase != Phase::stopped && nodes.contains(id)) evict(id, Eviction::to_join_again, "it could not get an image in time");
}

// A worker that was told to take the result from here.
void CoordinatorCore::on_fetch(Node& node, const Fetch& fetch) {
  Image image{.request = fetch.request, .round = options.resume_round};
  const bool expected = node.state == Node::State::healing && options.resume_image && rounds->image_round() == options.resume_round;
  if (!expected) image.why = "the coordinator has no image of it";
  if (!sender.add(node.peer, header(options.resume_round), image, expected ? options.resume_image : nullptr)) ++dropped.unexpected;
}

}  // namespace perigee
