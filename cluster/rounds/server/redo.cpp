#include "cluster/rounds/server/redo.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cluster/ledger/ranges.h"

namespace perigee {

bool RedoQueue::add(int64_t held, Redo redo) {
  if (redo.rounds.empty() || rounds_.size() + redo.rounds.size() > kMaxRedo || (active() && redo.target != target_)) return false;
  int64_t next = rounds_.empty() ? held + 1 : rounds_.back().plan.round + 1;
  for (RedoRound& plan : redo.rounds) {
    std::set<WorkerId> ids;  // a worker's next push waits for the answer to the one before: none has two in a round
    const bool once = std::all_of(plan.shares.begin(), plan.shares.end(), [&](const Share& s) { return ids.insert(s.id).second; });
    if (plan.round != next++ || plan.round > redo.target || plan.shares.empty() || !once || plan.workers < 1) return reset(), false;
    rounds_.push_back({.plan = std::move(plan), .arrivals = {}});
  }
  target_ = redo.target;
  return true;
}

RedoQueue::Round* RedoQueue::round_of(int64_t round) {
  const auto it = std::find_if(rounds_.begin(), rounds_.end(), [&](const Round& r) { return r.plan.round == round; });
  return it == rounds_.end() ? nullptr : &*it;
}

std::optional<RedoQueue::Ask> RedoQueue::next_ask() const {
  for (size_t i = 0; i < std::min(kAhead, rounds_.size()); ++i)
    for (const Share& share : rounds_[i].plan.shares)
      if (!rounds_[i].arrivals.contains(share.id) && !asked_.contains(share.id)) return Ask{.of = share.id, .ranges = share.ranges};
  return std::nullopt;
}

void RedoQueue::asked(const Ask& ask, PeerId peer, uint64_t request) {
  for (const Round& round : rounds_)
    for (const Share& share : round.plan.shares)
      if (share.id == ask.of && share.ranges == ask.ranges) {
        asked_[ask.of] = {.request = request, .round = round.plan.round, .peer = peer, .push = {}, .receiver = {}};
        return;
      }
}

RedoQueue::Verdict RedoQueue::on_resent(WorkerId from, Resent resent, const ServerDesk& desk) {
  const auto it = asked_.find(from);
  if (it == asked_.end() || it->second.request != resent.request || it->second.push) return Verdict::stale;
  if (!resent.kept) return Verdict::gone;
  Asked& asked = it->second;
  const Round* round = round_of(asked.round);
  const auto share = std::find_if(round->plan.shares.begin(), round->plan.shares.end(), [&](const Share& s) { return s.id == from; });
  const Push& push = resent.push;
  if (!desk.sound(push) || push.bytes == 0 || push.base >= asked.round || joined(push.ranges) != share->ranges) return Verdict::refused;
  asked.push = std::move(resent.push);
  asked.receiver.expect(asked.peer, asked.request);
  return Verdict::taken;
}

RedoQueue::Verdict RedoQueue::on_image(WorkerId from, PeerId peer, Image& image, std::span<const std::byte> body) {
  const auto it = asked_.find(from);
  if (it == asked_.end() || it->second.request != image.request) return Verdict::stale;
  Asked& asked = it->second;
  if (!asked.push || image.total != asked.push->bytes || !image.log.empty()) return Verdict::refused;
  switch (asked.receiver.on_image(peer, image, body)) {
    case ImageReceiver::Progress::unexpected: return Verdict::stale;
    case ImageReceiver::Progress::failed: return Verdict::refused;
    case ImageReceiver::Progress::more: return Verdict::taken;
    case ImageReceiver::Progress::complete: break;
  }
  round_of(asked.round)->arrivals[from] = {
      .from = from, .peer = peer, .push = *std::move(asked.push), .body = std::move(asked.receiver.bytes())};
  asked_.erase(it);
  return Verdict::taken;
}

const RedoRound* RedoQueue::ready() const {
  return !rounds_.empty() && rounds_.front().arrivals.size() == rounds_.front().plan.shares.size() ? &rounds_.front().plan : nullptr;
}

std::vector<Arrival> RedoQueue::take() {
  std::vector<Arrival> all;
  Round& round = rounds_.front();
  for (const Share& share : round.plan.shares) all.push_back(std::move(round.arrivals.at(share.id)));
  return all;
}

}  // namespace perigee
