#include "cluster/membership/links.h"

#include <algorithm>
#include <cassert>

#include "cluster/planted.h"

namespace perigee {

void Links::form(uint64_t job, uint64_t generation, WorkerId self, const std::vector<Member>& members, std::set<WorkerId> dead) {
  assert(self != 0 && generation > generation_);
  job_ = job;
  generation_ = generation;
  self_ = self;
  formed_ns_ = clock_.now_ns();
  members_.clear();
  for (const Member& m : members) members_[m.id] = m;
  dead_ = std::move(dead);

  std::vector<PeerId> gone;
  for (const auto& [peer, c] : connections_)
    if (c.id != 0 &&
        (!members_.contains(c.id) || (c.meant != 0 && c.meant != self_) || (dead_.contains(c.id) && c.generation < generation)))
      gone.push_back(peer);
  for (const PeerId peer : gone) close(peer);
  if (members_.size() > kMesh) return;
  for (const auto& [id, m] : members_)
    if (id < self_ && !ready_.contains(id)) connect(id);
}

const Member* Links::member(WorkerId id) const {
  const auto it = members_.find(id);
  return it == members_.end() ? nullptr : &it->second;
}

void Links::connect(WorkerId id) {
  const Member* m = member(id);
  assert(m != nullptr && id != self_);
  for (const auto& [peer, c] : connections_)
    if (c.id == id && c.outgoing && !c.ready) return;  // under way
  const uint64_t now = clock_.now_ns();
  connections_[transport_.connect(m->address, now + (dead_.contains(id) ? kAgainNs : kHelloNs))] = {
      .id = id, .outgoing = true, .since_ns = now, .generation = generation_};
}

PeerId Links::to(WorkerId id) {
  if (const auto it = ready_.find(id); it != ready_.end()) {
    connections_.at(it->second.back()).used = generation_;
    return it->second.back();
  }
  // The lower one only connects when the other, whose turn it is, has not for a while: it may believe that an old connection is alive.
  const bool mine = id < self_ || members_.size() > kMesh || clock_.now_ns() - formed_ns_ > kPatienceNs;
  if (mine && id != self_ && member(id)) connect(id);
  return 0;
}

WorkerId Links::who(PeerId peer) const {
  const auto it = connections_.find(peer);
  return it == connections_.end() || !it->second.ready ? 0 : it->second.id;
}

bool Links::on_connected(PeerId peer) {
  const auto it = connections_.find(peer);
  if (it == connections_.end()) {
    const auto unknown = std::count_if(connections_.begin(), connections_.end(), [](const auto& c) { return c.second.id == 0; });
    if (static_cast<size_t>(unknown) >= kMaxUnknown) transport_.close(peer);
    else connections_[peer] = {.since_ns = clock_.now_ns()};
    return false;
  }
  assert(it->second.outgoing);
  it->second.ready = true;
  it->second.heard_ns = clock_.now_ns();
  ready_[it->second.id].push_back(peer);
  transport_.send(peer, encode(Link{.from = self_, .to = it->second.id}, {.job = job_, .generation = generation_}));
  return true;
}

bool Links::on_link(PeerId peer, const Link& link, uint64_t generation) {
  const auto it = connections_.find(peer);
  if (it == connections_.end() || it->second.id != 0 || link.from == 0 || link.from == self_ || link.to != self_) {
    close(peer);
    return false;
  }
  it->second.id = link.from;
  it->second.meant = link.to;
  it->second.ready = true;
  it->second.heard_ns = clock_.now_ns();
  it->second.generation = generation;
  ready_[link.from].push_back(peer);
  return true;
}

void Links::used(PeerId peer, uint64_t generation) {
  if (const auto it = connections_.find(peer); it != connections_.end()) it->second.used = std::max(it->second.used, generation);
}

WorkerId Links::on_lost(PeerId peer) { return remove(peer, planted(Bug::old_links_mourned)); }

WorkerId Links::remove(PeerId peer, bool whatever_it_carried) {
  const auto it = connections_.find(peer);
  if (it == connections_.end()) return 0;
  const Connection c = it->second;
  connections_.erase(it);
  if (!c.ready) return c.outgoing && member(c.id) && !ready_.contains(c.id) ? c.id : 0;
  auto& all = ready_[c.id];
  const bool newest = !all.empty() && all.back() == peer;
  std::erase(all, peer);
  if (all.empty()) ready_.erase(c.id);
  return newest && member(c.id) && (whatever_it_carried || c.used >= generation_) ? c.id : 0;
}

void Links::expire() {
  std::vector<PeerId> late;
  for (const auto& [peer, c] : connections_)
    if (c.id == 0 && clock_.now_ns() - c.since_ns > kHelloNs) late.push_back(peer);
  for (const PeerId peer : late) close(peer);
}

void Links::beat(std::span<const std::byte> frame) {
  for (const auto& [peer, c] : connections_)
    if (c.ready) transport_.send(peer, frame);
}

void Links::heard(PeerId peer) {
  if (const auto it = connections_.find(peer); it != connections_.end()) it->second.heard_ns = clock_.now_ns();
}

void Links::forgive(uint64_t gap_ns) {
  for (auto& [peer, c] : connections_) c.heard_ns = std::min(clock_.now_ns(), c.heard_ns + gap_ns);
}

std::vector<std::pair<PeerId, WorkerId>> Links::end_silent(uint64_t silent_ns) {
  const uint64_t now = clock_.now_ns();
  std::vector<std::pair<PeerId, WorkerId>> silent;
  for (const auto& [peer, c] : connections_)
    if (c.ready && now > c.heard_ns + silent_ns) silent.emplace_back(peer, 0);
  for (auto& [peer, id] : silent) id = remove(peer, true), transport_.close(peer);
  return silent;
}

void Links::close(PeerId peer) {
  on_lost(peer);
  transport_.close(peer);
}

void Links::close_all() {
  while (!connections_.empty()) close(connections_.begin()->first);
}

}  // namespace perigee
