// A new server process: it makes the rounds again that died with the one before, of what the workers have kept.
#include <cassert>
#include <utility>

#include "cluster/membership/worker_core.h"
#include "cluster/rounds/server/worker.h"

namespace perigee {

void ServerRounds::on_redo(Redo redo) {
  const bool expected = w_.is_server() && w_.state == WorkerCore::State::forming && !w_.healing && !w_.loading;
  if (!expected || (!redo_.active() && (round_.applying || w_.held_hash == 0))) {
    ++w_.dropped.unexpected;
    return;
  }
  if (redo.settings != w_.settings) w_.settings = redo.settings, w_.replica.set_options(w_.settings);
  if (!redo_.add(held(), std::move(redo))) return give_up_redo("its rounds do not follow each other");
  redo_next();
}

// Asks for what is missing, and makes the next round when all of it is here.
void ServerRounds::redo_next() {
  if (!redo_.active() || w_.state != WorkerCore::State::forming) return;
  while (const std::optional<RedoQueue::Ask> ask = redo_.next_ask()) {
    const PeerId peer = w_.links.to(ask->of);
    const uint64_t request = w_.next_request + 1;
    if (peer == 0 || !w_.transport.send(peer, encode(Resend{.request = request, .ranges = ask->ranges}, w_.header(held())))) break;
    redo_.asked(*ask, peer, ++w_.next_request);
  }
  const RedoRound* next = redo_.ready();
  if (!next || round_.applying) return;
  assert(next->round == held() + 1);
  merging_ = redo_.take();
  merge(next->workers, next->examples_after);
}

bool ServerRounds::on_resent(PeerId peer, const FrameHeader& h, Resent resent) {
  if (!redo_.active() || h.generation != w_.generation) {
    ++w_.dropped.stale;
    return true;
  }
  switch (redo_.on_resent(w_.links.who(peer), std::move(resent), desk_)) {
    case RedoQueue::Verdict::refused: return false;
    case RedoQueue::Verdict::gone: give_up_redo("a worker has not kept what it pushed"); return true;
    case RedoQueue::Verdict::stale: ++w_.dropped.stale; return true;
    case RedoQueue::Verdict::taken: return true;
  }
  return true;
}

bool ServerRounds::on_redo_image(PeerId peer, Image& image, std::span<const std::byte> body) {
  w_.bytes_down += body.size();
  switch (redo_.on_image(w_.links.who(peer), peer, image, body)) {
    case RedoQueue::Verdict::refused: return false;
    case RedoQueue::Verdict::gone:
    case RedoQueue::Verdict::stale: ++w_.dropped.stale; return true;
    case RedoQueue::Verdict::taken: break;
  }
  redo_next();
  return true;
}

// As on_served, but nobody waits for an answer, and what comes out is known.
void ServerRounds::on_redone(int64_t round, uint64_t hash, const SharedBytes& reply, bool change) {
  assert(round == held() + 1);
  round_.applying = merge_begun_ = false;
  if (!change) values_ = reply, values_round_ = round;
  const RedoRound plan = redo_.front();
  redo_.made();
  round_.applying_entry.hash = hash;
  w_.hold(std::move(round_.applying_entry));
  round_.examples_done = merged_examples_;
  const std::vector<Arrival> merged = std::exchange(merging_, {});
  w_.events.on_served(round, hash, round_.examples_done, merge_workers_, merged);
  if (w_.formed_due) return w_.send_formed();
  if (hash != plan.hash) return give_up_redo("round " + std::to_string(round) + " came out otherwise than before");
  if (round < redo_.target()) return redo_next();
  redo_.reset();
  w_.tell(CaughtUp{.round = held(), .hash = w_.held_hash, .ok = true}, held());
}

void ServerRounds::give_up_redo(const std::string& why) {
  redo_.reset();
  w_.event("redo_failed", Json(Json::Object{{"cause", why}, {"done", "training goes on from the round that was reached"}}));
  if (w_.formed_due) return w_.send_formed();
  w_.tell(CaughtUp{.round = held(), .hash = w_.held_hash, .ok = false}, held());
}

}  // namespace perigee
