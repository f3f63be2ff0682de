// The state of a server lives in its process alone. So the coordinator keeps an image of it, remembers what each round since was made of,
// and the workers keep what they pushed: when the server dies, its next process makes the same rounds again, to the bit, and nothing that is
// committed is lost. No byte more crosses the network for it; the image goes from the server to the launcher, which are on one machine.
#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/server/coordinator.h"
#include "cluster/rounds/server/kept_pushes.h"

namespace perigee {
namespace {

constexpr uint64_t kImageNs = 500'000'000;            // between two images, at least ...
constexpr uint64_t kImageShare = 25;                  // ... and so many times as long as one takes ...
constexpr uint64_t kHurriedShare = 5;                 // ... or so many, when the workers have much to keep
constexpr uint64_t kMuchBytes = uint64_t{128} << 20;  // of each worker
constexpr uint64_t kLookNs = 100'000'000;             // between two looks at all this
constexpr size_t kRedoInFrame = 64;

}  // namespace

void ServerCoordinator::remember(RedoRound round, uint64_t bytes) {
  if (!made_.empty() && made_.back().round.round + 1 != round.round) forget_made();
  for (Share& share : round.shares) share.ranges = joined(std::move(share.ranges));
  made_bytes_ += bytes;
  made_.push_back({.round = std::move(round), .bytes = bytes});
  if (made_.size() > kMaxRedo) tell_forgotten(most_pushed()), made_bytes_ -= made_.front().bytes, made_.pop_front();
  image_wanted_ = made_.front().round.round > c_.options.resume_round + 1;
}

void ServerCoordinator::forget_made() {
  made_.clear();
  made_bytes_ = 0;
  image_wanted_ = true;
}

const ServerCoordinator::Made* ServerCoordinator::made(int64_t round) const {
  if (made_.empty() || round < made_.front().round.round || round > made_.back().round.round) return nullptr;
  return &made_[static_cast<size_t>(round - made_.front().round.round)];
}

ServerCoordinator::Pushed ServerCoordinator::most_pushed() const {
  std::map<WorkerId, Pushed> all;
  Pushed most;
  for (const Made& m : made_)
    for (const Share& share : m.round.shares) {
      Pushed& one = all[share.id];
      one = {.pushes = one.pushes + 1, .bytes = one.bytes + m.bytes / m.round.shares.size(), .by = share.id};
      if (one.bytes > most.bytes || (one.bytes == most.bytes && one.pushes > most.pushes)) most = one;
    }
  return most;
}

// Once: later it would be no news.
void ServerCoordinator::tell_forgotten(const Pushed& most) {
  if (std::exchange(told_forgotten_, true)) return;
  const auto node = c_.nodes.find(most.by);
  c_.event("pushes_forgotten", node == c_.nodes.end() ? nullptr : &node->second,
           "the server's parameters were not saved for " + std::to_string(made_.size()) + " rounds, in which it has sent " +
               std::to_string(most.pushes) + " changes, " + std::to_string(most.bytes >> 20) + " MB; it keeps the last " +
               std::to_string(KeptBound().pushes_of(most.bytes / std::max<size_t>(1, most.pushes))),
           "rounds after " + std::to_string(c_.options.resume_round) + " are lost if the server dies before they are saved");
}

// An image now and then, so that there is never much to be made again; and before a worker has to forget something of it.
void ServerCoordinator::check(uint64_t now) {
  if ((made_.empty() && !image_wanted_) || c_.finished) return;
  const uint64_t passed = now - std::min(now, imaged_ns_);
  const Pushed most = most_pushed();
  if (!KeptBound().holds(most.pushes, most.bytes)) tell_forgotten(most);
  // By the time at which an image that is asked for now is here.
  const auto then = [&](size_t so_far) { return so_far + 1 + so_far * (image_cost_ns_ + 2 * kLookNs) / std::max(passed, kLookNs); };
  const size_t pushes = then(most.pushes), bytes = pushes * (most.bytes / std::max<size_t>(1, most.pushes));
  const bool full = !planted(Bug::images_unhurried) && (then(made_.size()) > kMaxRedo || !KeptBound().holds(pushes, bytes));
  const bool much = made_.size() > kMaxRedo / 2 || made_bytes_ / std::max<size_t>(1, c_.trainers()) > kMuchBytes;
  const uint64_t share = full ? 1 : much || image_wanted_ ? kHurriedShare : kImageShare;
  if ((image_wanted_ || full || passed >= kImageNs) && passed >= share * image_cost_ns_) c_.keep_image();
}

// 0: it could not be had.
void ServerCoordinator::on_imaged(uint64_t asked_ns) {
  imaged_ns_ = c_.clock.now_ns();
  if (asked_ns == 0) return;
  image_cost_ns_ = imaged_ns_ - asked_ns;
  const int64_t round = c_.options.resume_round;
  while (!made_.empty() && made_.front().round.round <= round) made_bytes_ -= made_.front().bytes, made_.pop_front();
  image_wanted_ = made_.empty() ? c_.books.round() > round : made_.front().round.round > round + 1;
  for (const WorkerId id : c_.members)
    if (const Node& node = c_.nodes.at(id); !node.server) c_.tell(node, Imaged{.round = round}, round);
}

// Other options make other results.
void ServerCoordinator::on_start_epoch(StartEpoch* message) {
  redo_from_.reset();
  if (std::exchange(settings_, message->settings) != settings_) forget_made();
}

// The ledger may have lost rounds, have others in their place, or have learnt of some from the server alone.
void ServerCoordinator::on_all_formed() {
  const auto void_now = [&](const RedoRound& r) { return r.round > c_.books.round() || c_.books.hash_of(r.round) != r.hash; };
  while (!made_.empty() && void_now(made_.back().round)) made_bytes_ -= made_.back().bytes, made_.pop_back();
  if (c_.server() == 0) return;
  for (RedoRound& round : c_.nodes.at(c_.server()).made)
    if (!void_now(round) && made(round.round) == nullptr) remember(std::move(round), 0);
}

// A new server is here, and every worker that has pushed something for a round that can be made again.
bool ServerCoordinator::restores() const {
  const auto here = [&](const Node& node) { return node.state != Node::State::opening; };
  if (std::none_of(c_.nodes.begin(), c_.nodes.end(), [&](const auto& n) { return n.second.server && here(n.second); })) return false;
  const int64_t from = c_.options.resume_round;
  if (from == c_.books.round()) return true;
  const Made* last = made(c_.books.round());
  if (last == nullptr || made_.front().round.round > from + 1) return false;
  return std::all_of(made_.begin(), made_.end(), [&](const Made& m) {
    return std::all_of(m.round.shares.begin(), m.round.shares.end(), [&](const Share& s) {
      const auto node = c_.nodes.find(s.id);
      return node != c_.nodes.end() && here(node->second);
    });
  });
}

void ServerCoordinator::extend(int64_t* round, uint64_t* hash) {
  redo_from_.reset();
  if (c_.server() == 0 || planted(Bug::nothing_redone)) return;
  const Node& server = c_.nodes.at(c_.server());
  const std::optional<uint64_t> known = c_.books.hash_of(*round);
  const bool held = *hash != 0;  // by the server, which may have begun to make them again
  if (held && (server.round != *round || !known || *known != *hash)) return;
  int64_t last = *round;
  for (const Made* next = made(last + 1); next != nullptr && last < c_.books.round(); next = made(last + 1)) {
    const bool all = std::all_of(next->round.shares.begin(), next->round.shares.end(), [&](const Share& share) {
      const auto node = c_.nodes.find(share.id);
      return node != c_.nodes.end() && node->second.member && node->second.kept_from <= last + 1;
    });
    if (!all) break;
    ++last;
  }
  if (last == *round) return;
  redo_from_ = *round;
  *round = last;
  *hash = made(last)->round.hash;
}

bool ServerCoordinator::heals(Node& node) {
  if (!node.server || c_.phase != CoordinatorCore::Phase::forming) return false;
  if (!redo_from_) {
    if (last_server_ != 0 && last_server_ != node.id && node.heals == 0)
      tell_restored(node, c_.target_round, "no round is to be made again");
    return false;
  }
  node.state = Node::State::healing;
  node.heal_ns = c_.clock.now_ns();
  const std::optional<uint64_t> known = c_.books.hash_of(*redo_from_);
  if (node.hash != 0 && node.round == *redo_from_ && (!known || *known == node.hash)) send_redo(node);
  else c_.tell(node, CatchUp{.donor = 0, .round = *redo_from_, .hash = known.value_or(0)}, *redo_from_);
  return true;
}

void ServerCoordinator::send_redo(Node& node) {
  Redo part{.target = c_.target_round, .rounds = {}, .settings = settings_};
  int64_t examples = 0;
  for (int64_t round = *redo_from_ + 1; round <= c_.target_round; ++round) {
    part.rounds.push_back(made(round)->round);
    for (const Share& share : part.rounds.back().shares) examples += share.examples;
    if (part.rounds.size() < kRedoInFrame && round < c_.target_round) continue;
    c_.tell(node, part, *redo_from_);
    part.rounds.clear();
  }
  tell_restored(node, *redo_from_,
                std::to_string(c_.target_round - *redo_from_) + " rounds, " + std::to_string(examples) +
                    " examples, are made again from what the workers have kept");
}

void ServerCoordinator::tell_restored(const Node& node, int64_t round, const std::string& done) {
  c_.event("server_restored", &node, "its next process begins with round " + std::to_string(round), done);
}

// True: it is not the last word.
bool ServerCoordinator::on_healed(Node& node, const CaughtUp& healed) {
  if (!redo_from_ || (healed.ok && healed.round == c_.target_round && healed.hash == c_.target_hash)) return false;
  const std::optional<uint64_t> known = c_.books.hash_of(*redo_from_);
  if (healed.ok && healed.round == *redo_from_ && (!known || *known == healed.hash)) {
    node.state = Node::State::healing;
    node.heal_ns = c_.clock.now_ns();
    return send_redo(node), true;
  }
  forget_made();
  return c_.form(), true;
}

int64_t ServerCoordinator::image_round() const { return redo_from_.value_or(c_.target_round); }

}  // namespace perigee
