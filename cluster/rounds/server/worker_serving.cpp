// The server: what arrives becomes rounds, and each worker gets an answer.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/server/worker.h"

namespace perigee {

bool ServerRounds::on_push(PeerId peer, const FrameHeader& h, Push push) {
  const WorkerId from = w_.links.who(peer);
  const bool current = h.generation == w_.generation || planted(Bug::push_fence);
  if (!w_.is_server() || !current || (w_.state != WorkerCore::State::forming && w_.state != WorkerCore::State::running)) {
    ++(h.generation < w_.generation ? w_.dropped.stale : w_.dropped.unexpected);
    return true;
  }
  w_.bytes_down += h.length;
  switch (desk_.on_push(from, peer, std::move(push))) {
    case ServerDesk::Verdict::refused: return false;
    case ServerDesk::Verdict::stale: ++w_.dropped.stale; return true;
    case ServerDesk::Verdict::taken: break;
  }
  serve_next();
  return true;
}

bool ServerRounds::on_pushed_bytes(PeerId peer, Image& image, std::span<const std::byte> body) {
  w_.bytes_down += body.size();
  switch (desk_.on_image(w_.links.who(peer), peer, image, body)) {
    case ServerDesk::Verdict::refused: return false;
    case ServerDesk::Verdict::stale: ++w_.dropped.stale; return true;
    case ServerDesk::Verdict::taken: break;
  }
  serve_next();
  return true;
}

bool ServerRounds::enough() const {
  return !merging_.empty() &&
         (merging_.size() >= static_cast<size_t>(w_.policy.merge_every) || merging_.size() + desk_.idle() >= w_.trainers());
}

// The arrival is merged, too old, or only a request for the parameters. False: a worker is at fault.
bool ServerRounds::sort_arrivals() {
  while (!enough()) {
    std::optional<Arrival> arrival = desk_.next();
    if (!arrival) break;
    arrival->staleness = held() - arrival->push.base;
    const bool pushes = arrival->push.bytes > 0;
    if (pushes && arrival->staleness < 0) return w_.lose_link(arrival->from, "it trained from a result that is not there yet", true), false;
    const bool late = !w_.policy.elastic && arrival->staleness > w_.policy.max_staleness && !planted(Bug::stale_merged);
    if (pushes && late) ++discarded_;
    if (pushes && !late) merging_.push_back(std::move(*arrival));
    else if (values_round_ == held()) answer(*arrival, values_, false, false);
    else arrival->body.clear(), pulls_.push_back(std::move(*arrival));
  }
  return true;
}

void ServerRounds::serve_next() {
  if (!w_.is_server() || w_.state != WorkerCore::State::running || round_.applying || w_.healing || w_.loading) return;
  if (w_.epoch_start->last_round >= 0 && held() >= w_.epoch_start->last_round) return;
  if (!sort_arrivals()) return;
  // An elastic round only tells what it changed.
  if (!pulls_.empty() && (w_.policy.elastic || !enough())) {
    round_.applying = true;
    round_.apply_ns = w_.clock.now_ns();
    return w_.replica.serve({.round = held(), .examples_after = round_.examples_done});
  }
  if (enough()) merge(static_cast<int64_t>(w_.trainers()), -1);
}

// `examples_after` < 0: as many more as are merged.
void ServerRounds::merge(int64_t workers, int64_t examples_after) {
  const ExchangeLayout layout = w_.replica.layout();
  const std::span<std::byte> row = w_.replica.exchange_row(0);
  ApplyOrder order{.round = held() + 1, .workers = workers};
  merge_workers_ = workers;
  round_.applying_entry = {.round = order.round, .generation = w_.generation};
  for (Arrival& arrival : merging_) {
    const auto payload = static_cast<ptrdiff_t>(arrival.push.payload);
    add_beside(layout, row, std::span<const std::byte>(arrival.body).subspan(arrival.push.payload), &arrival == merging_.data());
    arrival.staleness = held() - arrival.push.base;
    order.examples += arrival.push.examples;
    order.staleness += static_cast<double>(arrival.staleness * arrival.push.examples);
    arrival.body.resize(static_cast<size_t>(payload));
    order.payloads.push_back({std::make_shared<const std::vector<std::byte>>(std::move(arrival.body)), arrival.push.examples});
    round_.applying_entry.ranges.insert(round_.applying_entry.ranges.end(), arrival.push.ranges.begin(), arrival.push.ranges.end());
  }
  order.staleness /= static_cast<double>(order.examples);
  merged_examples_ = examples_after >= 0 ? examples_after : round_.examples_done + order.examples;
  order.examples_after = merged_examples_;
  round_.applying_entry.ranges = joined(std::move(round_.applying_entry.ranges));
  round_.applying = merge_begun_ = true;
  round_.apply_ns = w_.clock.now_ns();
  w_.replica.serve(order);
}

void ServerRounds::on_served(int64_t round, uint64_t hash, const SharedBytes& reply, bool change) {
  assert(round_.applying && hash != 0);
  if (redo_.active() && merge_begun_) return on_redone(round, hash, reply, change);
  round_.applying = false;
  if (!change) values_ = reply, values_round_ = round;
  if (!merge_begun_) {
    for (const Arrival& arrival : std::exchange(pulls_, {})) answer(arrival, reply, false, false);
  } else {
    assert(round == held() + 1);
    merge_begun_ = false;
    round_.applying_entry.hash = hash;
    w_.hold(std::move(round_.applying_entry));
    round_.examples_done = merged_examples_;
    const std::vector<Arrival> merged = std::exchange(merging_, {});
    w_.events.on_served(round, hash, round_.examples_done, merge_workers_, merged);
    remember(merged, hash);
    if (w_.state == WorkerCore::State::running) report(merged, hash, reply, change);
    if (!change)
      for (const Arrival& arrival : std::exchange(pulls_, {})) answer(arrival, reply, false, false);
  }
  if (w_.formed_due) return w_.send_formed();
  serve_next();
}

void ServerRounds::remember(const std::vector<Arrival>& merged, uint64_t hash) {
  RedoRound one{.round = held(), .hash = hash, .workers = merge_workers_, .examples_after = round_.examples_done, .shares = {}};
  for (const Arrival& arrival : merged)
    one.shares.push_back({.id = arrival.from, .examples = arrival.push.examples, .ranges = joined(arrival.push.ranges)});
  made_.push_back(std::move(one));
  if (made_.size() > kMaxRedo) made_.pop_front();
}

void ServerRounds::on_commit() {
  while (!made_.empty() && made_.front().round <= w_.committed) made_.pop_front();
}

// The coordinator books it, the workers go on from it. If the membership has changed meanwhile, the log says it, and no worker waits.
void ServerRounds::report(const std::vector<Arrival>& merged, uint64_t hash, const SharedBytes& reply, bool change) {
  Served served{.hash = hash, .discarded = std::exchange(discarded_, 0), .workers = merge_workers_, .examples_after = round_.examples_done};
  Figures& sum = served.figures;
  for (const Arrival& arrival : merged) {
    const Figures& f = arrival.push.figures;
    served.shares.push_back({.id = arrival.from, .examples = arrival.push.examples, .ranges = joined(arrival.push.ranges)});
    served.staleness.push_back(arrival.staleness);
    sum.loss_sum += f.loss_sum;
    if (f.correct >= 0) sum.correct = std::max(0.0, sum.correct) + f.correct;
    sum.learning_rate = f.learning_rate;
    sum.load_s += f.load_s, sum.compute_s += f.compute_s, sum.encode_s += f.encode_s;
    sum.bytes_up += arrival.push.bytes, sum.bytes_down += reply->size();
    answer(arrival, reply, true, change);
  }
  const uint64_t now = w_.clock.now_ns();
  sum.apply_s = static_cast<double>(now - round_.apply_ns) * 1e-9;
  w_.times.round = held();
  w_.times.add(TracePhase::apply, round_.apply_ns, now, 0);
  w_.times.round = -1;
  w_.tell(served, held());
}

void ServerRounds::answer(const Arrival& arrival, const SharedBytes& bytes, bool counted, bool change) {
  if (w_.state != WorkerCore::State::running || w_.links.who(arrival.peer) != arrival.from) return;  // it will ask again
  desk_.answered(arrival.from);
  const Pulled pulled{.request = arrival.push.request,
                      .round = held(),
                      .hash = w_.held_hash,
                      .examples_after = round_.examples_done,
                      .counted = counted,
                      .change = change};
  if (!w_.transport.send(arrival.peer, encode(pulled, w_.header(held()))))
    return w_.links.close(arrival.peer), w_.lose_link(arrival.from, "it takes no answer");
  w_.bytes_up += bytes->size();
  w_.sender.add(arrival.peer, w_.header(held()), Image{.request = arrival.push.request, .round = held(), .hash = w_.held_hash}, bytes);
}

void ServerRounds::on_payload_refused(int64_t round, size_t payload) {
  assert(round_.applying && round == held() + 1);
  round_.applying = merge_begun_ = false;
  const std::vector<Arrival> refused = std::exchange(merging_, {});
  if (redo_.active()) return give_up_redo("a payload is refused that was none before");
  if (w_.formed_due) return w_.send_formed();
  w_.lose_link(refused.at(payload).from, "what it pushed is no payload of this job's codec", true);
}

}  // namespace perigee
