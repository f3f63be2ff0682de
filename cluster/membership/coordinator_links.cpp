// Links between workers that are said to be broken: the same workers form again, and where that does not help one of the two has to go.
#include <algorithm>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr uint64_t kComplaintNs = 30'000'000'000;  // three complaints about a link within this, and one of the two goes
constexpr uint64_t kSuspicionNs = 50'000'000;      // between a broken link and what is done about it
constexpr uint64_t kBackNs = 5'000'000'000;        // a worker whose connection broke tries again within two seconds, or is dead
constexpr uint64_t kLooksNs = 120'000'000'000;     // a worker that was cut off looks for a coordinator for so long
constexpr double kAwayMs = 1000, kMostAwayMs = 8000, kForgivenMs = 60'000;

bool is_link_of(const DeadLink& link, WorkerId a, WorkerId b) { return link.low == std::min(a, b) && link.high == std::max(a, b); }

}  // namespace

void CoordinatorCore::on_link_lost(Node& node, const LinkLost& lost) {
  const auto it = nodes.find(lost.peer);
  if (it == nodes.end() || !it->second.member || lost.peer == node.id || suspicions.size() >= kMaxWorkers) {
    ++dropped.unexpected;
    return;
  }
  suspicions.push_back(
      {.generation = generation, .from = node.id, .peer = lost.peer, .at_fault = lost.at_fault, .down = lost.down, .why = lost.why});
  transport.start_timer(kLink, clock.now_ns() + kSuspicionNs);
}

// A broken link is often the first sign of a dead process, whose own connection to here ends a moment later: then that is the cause to
// tell, and there is nothing to do about the link.
void CoordinatorCore::judge_links() {
  std::erase_if(suspicions,
                [&](const Suspicion& s) { return s.generation != generation || !nodes.contains(s.from) || !nodes.contains(s.peer); });
  if (suspicions.empty() || (phase != Phase::forming && phase != Phase::running)) return suspicions.clear();
  const uint64_t now = clock.now_ns();
  if (is_quiet(nodes.at(suspicions.front().from)) || is_quiet(nodes.at(suspicions.front().peer)))
    return transport.start_timer(kLink, now + kSuspicionNs);
  const Suspicion suspicion = suspicions.front();
  suspicions.clear();
  const Node& node = nodes.at(suspicion.from);
  const Node& peer = nodes.at(suspicion.peer);
  const bool at_fault = suspicion.at_fault;
  const WorkerId low = at_fault ? 0 : std::min(node.id, peer.id), high = at_fault ? peer.id : std::max(node.id, peer.id);
  while (!complaints.empty() && now - complaints.front().at_ns > kComplaintNs) complaints.pop_front();
  complaints.push_back({low, high, now});
  const auto times =
      std::count_if(complaints.begin(), complaints.end(), [&](const Complaint& c) { return c.low == low && c.high == high; });
  if (times >= 3 || (suspicion.down && doubted(node.id, peer.id))) {
    std::erase_if(complaints, [&](const Complaint& c) { return c.low == low && c.high == high; });
    if (at_fault)
      return evict(peer.id, Eviction::to_join_again, node.name + " (" + host_name_in(node.host) + ") refuses it: " + suspicion.why);
    return part(node, peer, suspicion.why);
  }
  if (const WorkerId stuck = phase == Phase::running ? keeps_others_waiting(now) : 0)
    return evict(stuck, Eviction::stuck, node.name + " waits: " + suspicion.why);
  if (at_fault) nodes.at(peer.id).spoiled = true;
  if (dead_links.size() < kMaxWorkers) dead_links.push_back({std::min(node.id, peer.id), std::max(node.id, peer.id)});
  event("link_lost", &node, "link to " + peer.name + " (" + host_name_in(peer.host) + "): " + suspicion.why,
        at_fault ? "the same workers connect anew, without what that one had ready to send" : "the same workers connect anew");
  form();
}

// Between these two no link holds: one goes, and comes back at its own pace while there is the other. Others need a server, and who came first
// is more likely to be where most are.
void CoordinatorCore::part(const Node& one, const Node& two, const std::string& why) {
  const bool first_goes = two.server || (!one.server && one.joined > two.joined);
  const Node& goes = first_goes ? one : two;
  const Node& stays = first_goes ? two : one;
  const uint64_t now = clock.now_ns();
  CutOff& cut = cut_off[goes.name];
  const bool again = cut.wait_ms > 0 && now < cut.until_ns + ns(kForgivenMs);
  cut.wait_ms = again ? std::min(2 * cut.wait_ms, kMostAwayMs) : kAwayMs;
  cut.until_ns = now + ns(cut.wait_ms);
  cut.from = stays.name;
  while (cut_off.size() > kMaxWorkers) cut_off.erase(cut_off.begin());
  evict(goes.id, Eviction::to_join_again, "no link between it and " + stays.name + " (" + host_name_in(stays.host) + ") holds: " + why);
}

bool CoordinatorCore::doubted(WorkerId one, WorkerId two) const {
  return std::any_of(told_dead.begin(), told_dead.end(), [&](const DeadLink& link) { return is_link_of(link, one, two); });
}

// True: it is too early for that one to try again. Else, where the link failed before, it must come up sooner than others.
bool CoordinatorCore::stays_away(const Join& join) {
  const auto cut = cut_off.find(join.name);
  if (cut == cut_off.end()) return false;
  const bool needed = std::any_of(members.begin(), members.end(), [&](WorkerId id) { return nodes.at(id).name == cut->second.from; });
  return needed && clock.now_ns() < cut->second.until_ns;
}

// A worker that was sent away, or whose connection broke, is about to try again: it must hear that the run is over. One that fell silent may
// live, and tries again when it can.
std::vector<std::string> CoordinatorCore::expected_back() const {
  std::vector<std::string> names;
  for (const auto& [name, gone] : away)
    if (clock.now_ns() < gone.since_ns + (gone.lives ? kLooksNs : kBackNs)) names.push_back(name);
  for (const auto& [peer, worker] : untold) names.push_back(worker.name);
  if (planted(Bug::ends_unheard)) names.clear();
  return names;
}

void CoordinatorCore::doubt_link(const Node& node) {
  const auto cut = cut_off.find(node.name);
  if (cut == cut_off.end() || dead_links.size() >= kMaxWorkers || clock.now_ns() > cut->second.until_ns + ns(kForgivenMs)) return;
  for (const auto& [id, other] : nodes)
    if (other.name == cut->second.from && id != node.id) dead_links.push_back({std::min(node.id, id), std::max(node.id, id)});
}

}  // namespace perigee
