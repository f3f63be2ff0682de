#include "cluster/rounds/server/worker.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

constexpr uint64_t kPatience = 10;  // deadlines that a worker waits for an answer: the server may be evaluating

}  // namespace

void ServerRounds::on_propose() {
  desk_.reset(w_.replica.layout());
  redo_.reset();
}

void ServerRounds::on_start_epoch() {
  redo_.reset();
  kept_.settle(w_.epoch_start->base);
  if (round_.staged) hand_in();
  go_on();
}

void ServerRounds::on_loaded() {
  fresh_ = false, counted_ = 0, values_round_ = -2;
  made_.clear();
  if (w_.is_server()) w_.events.on_restored(held(), w_.held_hash);
  else if (w_.server != 0) w_.held_hash = 0;  // no result yet: it pulls one
}

void ServerRounds::resume() {
  round_.ready_sent = false;
  if (round_.staged) hand_in();
  else go_on();
}

// A new generation, or none: a worker that waits for an answer asks again in the next one.
void ServerRounds::stop(bool keep) {
  if (w_.opened && !keep) drop();
  if (w_.server != 0) {
    desk_.reset(w_.replica.layout());
    redo_.reset();
    if (!merge_begun_) merging_.clear();
    pulls_.clear();
    if (request_ && !taking_) {
      if (request_->peer != 0) w_.sender.forget(request_->peer);
      receiver_.cancel();
      request_.reset();
    }
    idle_told_ = false;
  }
  leased_.clear();
  round_.ready_sent = round_.paused = false;
}

std::vector<Range> ServerRounds::pending() const {
  std::vector<Range> all;
  const auto add = [&](const std::vector<Range>& ranges) { all.insert(all.end(), ranges.begin(), ranges.end()); };
  if (round_.training) add(round_.training->ranges);
  if (round_.staged) add(round_.staged->ranges);
  return all;
}

void ServerRounds::train() {
  if (w_.is_server()) return serve_next();
  if (request_ || taking_) return;
  if (leased_.queue.empty()) {
    // Its result gets old meanwhile; an elastic worker's parameters are its own.
    if (!w_.policy.elastic) fresh_ = false;
    if (w_.policy.merge_every > 1 && !idle_told_) ask_server({.idle = true});
    return;
  }
  if (!fresh_) return ask_server({});
  round_.local_base = held();
  begin(leased_.next(w_, false, 0));
}

std::string ServerRounds::awaits() const {
  if (w_.is_server() && !round_.applying && w_.evaluating == 0) return "contributions";
  return request_ || taking_ ? "the server" : "";
}

void ServerRounds::tick(uint64_t now) {
  if (redo_.active()) return redo_next();
  if (w_.server == 0 || w_.is_server() || w_.state != WorkerCore::State::running) return;
  if (w_.links.to(w_.server) != 0) try_push();
  if (!request_ || taking_ || now - request_->progress_ns <= kPatience * w_.ns(w_.policy.deadline_ms)) return;
  request_->progress_ns = now;
  w_.lose_link(w_.server, "no answer of the server for " +
                              std::to_string(static_cast<int64_t>(kPatience) * static_cast<int64_t>(w_.policy.deadline_ms)) + " ms");
}

// ---- frames ----

Received ServerRounds::on_coordinator_frame(const FrameHeader& header, std::span<const std::byte> payload) {
  static constexpr std::array kRoutes = {
      route<Lease, &ServerRounds::on_lease, ServerRounds, PeerId>(Fence::none),
      route<Redo, &ServerRounds::on_redo, ServerRounds, PeerId>(Fence::none),
      route<Imaged, &ServerRounds::on_imaged, ServerRounds, PeerId>(Fence::none),
  };
  return dispatch<ServerRounds, PeerId, Fence>(kRoutes, *this, w_.coordinator, header, payload, [](Fence) { return true; });
}

Received ServerRounds::on_worker_frame(PeerId peer, const FrameHeader& header, std::span<const std::byte> payload) {
  static constexpr std::array kRoutes = {
      route<Push, &ServerRounds::on_push, ServerRounds, PeerId>(Fence::none),
      route<Pulled, &ServerRounds::on_pulled, ServerRounds, PeerId>(Fence::none),
      route<Image, &ServerRounds::on_image, ServerRounds, PeerId>(Fence::none),
      route<Resend, &ServerRounds::on_resend, ServerRounds, PeerId>(Fence::none),
      route<Resent, &ServerRounds::on_resent, ServerRounds, PeerId>(Fence::none),
  };
  return dispatch<ServerRounds, PeerId, Fence>(kRoutes, *this, peer, header, payload, [](Fence) { return true; });
}

void ServerRounds::on_lease(const Lease& lease) {
  if (w_.state != WorkerCore::State::running || !leased_.add(lease)) {
    ++w_.dropped.unexpected;
    return;
  }
  if (!round_.staged) round_.ready_sent = false;
  if (!round_.ready_sent) go_on();
}

// False: no honest worker sends that.
bool ServerRounds::on_image(PeerId peer, const FrameHeader& h, Image& image, std::span<const std::byte> body) {
  const bool current = h.generation == w_.generation && (w_.state == WorkerCore::State::forming || w_.state == WorkerCore::State::running);
  if (!current && !(w_.is_server() && planted(Bug::push_fence))) {
    ++w_.dropped.stale;
    return true;
  }
  if (redo_.active()) return on_redo_image(peer, image, body);
  return w_.is_server() ? on_pushed_bytes(peer, image, body) : on_values(peer, image, body);
}

// ---- a worker that trains ----

void ServerRounds::on_contribution(const TrainOrder& order, const Contribution& contribution, double) {
  round_.staged = contribution;
  if (planted(Bug::sends_not_finite)) round_.staged->finite = true;
  round_.staged_gradient = false;
  round_.staged_ns = w_.clock.now_ns();
  // Work that did not fit into the time comes first in the next order.
  if (!planted(Bug::rest_lost)) leased_.put_back(without(order.ranges, contribution.ranges));
  if (w_.state != WorkerCore::State::running || w_.healing || w_.loading) return;
  hand_in();
  go_on();
}

// The staged contribution goes to the server; if it is of no use, the coordinator hears of it.
void ServerRounds::hand_in() {
  if (!round_.staged->finite) return send_ready();
  if (round_.ready_sent || w_.coordinator == 0 || w_.state != WorkerCore::State::running) return;
  if (!request_) push_contribution();
}

void ServerRounds::push_contribution() {
  assert(round_.staged && round_.staged->finite && round_.staged->payload && !request_);
  const ExchangeLayout layout = w_.replica.layout();
  const std::span<const std::byte> beside = std::span<const std::byte>(w_.replica.exchange_row(0)).subspan(layout.coded);
  auto body = std::make_shared<std::vector<std::byte>>();
  body->reserve(round_.staged->payload->size() + beside.size());
  body->insert(body->end(), round_.staged->payload->begin(), round_.staged->payload->end());
  body->insert(body->end(), beside.begin(), beside.end());
  Push push{.base = round_.local_base,
            .counted = counted_,
            .bytes = body->size(),
            .payload = round_.staged->payload->size(),
            .examples = round_.staged->examples,
            .steps = round_.staged->steps,
            .examples_before = leased_.examples_before,
            .examples_per_step = leased_.examples_per_step,
            .ranges = round_.staged->ranges,
            .figures = round_.staged->figures};
  ask_server(std::move(push), std::move(body));
}

void ServerRounds::ask_server(Push push, SharedBytes body) {
  assert(!request_);
  push.request = ++w_.next_request;
  push.threads = w_.threads;
  push.isa = isa_name(host_isa());
  request_ = Request{.push = std::move(push), .body = std::move(body), .answer = {}, .progress_ns = w_.clock.now_ns()};
  try_push();
}

// Again when the link is there, or has room, and at every tick.
void ServerRounds::try_push() {
  if (w_.state != WorkerCore::State::running || !request_ || request_->peer != 0) return;
  Request& request = *request_;
  const PeerId peer = w_.links.to(w_.server);
  if (peer == 0 || !w_.transport.send(peer, encode(request.push, w_.header(held())))) return;
  if (request.push.idle) {
    idle_told_ = true;
    request_.reset();
    return go_on();
  }
  request.peer = peer;
  receiver_.expect(peer, request.push.request);
  idle_told_ = false;
  if (!request.body) return;
  pushed_ = true;
  kept_.add(request.push, request.body);
  w_.bytes_up += request.body->size();
  w_.sender.add(peer, w_.header(held()), Image{.request = request.push.request, .round = request.push.base, .hash = w_.held_hash},
                request.body);
}

void ServerRounds::on_writable(WorkerId) {
  try_push();
  redo_next();
}

// The server died with what it had made of this; its next process makes it again.
bool ServerRounds::on_resend(PeerId peer, const FrameHeader& h, Resend resend) {
  const bool current = h.generation == w_.generation && (w_.state == WorkerCore::State::forming || w_.state == WorkerCore::State::running);
  if (!current || w_.is_server() || w_.links.who(peer) != w_.server) {
    ++w_.dropped.stale;
    return true;
  }
  const KeptPush* kept = kept_.find(resend.ranges);
  Resent resent{.request = resend.request, .kept = kept != nullptr, .push = kept ? kept->push : Push{}};
  if (!w_.transport.send(peer, encode(resent, w_.header(held()))))
    return w_.links.close(peer), w_.lose_link(w_.server, "it takes no answer"), true;
  if (!kept) return true;
  w_.bytes_up += kept->body->size();
  w_.sender.add(peer, w_.header(held()), Image{.request = resend.request, .round = kept->push.base, .hash = w_.held_hash}, kept->body);
  return true;
}

bool ServerRounds::on_pulled(PeerId peer, const FrameHeader& h, const Pulled& pulled) {
  if (h.generation != w_.generation) return true;
  if (!request_ || request_->peer != peer || request_->answer || pulled.request != request_->push.request) {
    ++w_.dropped.stale;
    return true;
  }
  const bool asked = request_->push.bytes > 0;
  if (pulled.round < -1 || pulled.hash == 0 || pulled.examples_after < 0 || (pulled.counted && !asked) ||
      pulled.change != (w_.policy.elastic && pulled.counted))
    return false;
  request_->answer = pulled;
  request_->progress_ns = w_.clock.now_ns();
  return true;
}

bool ServerRounds::on_values(PeerId peer, Image& image, std::span<const std::byte> body) {
  if (!request_ || taking_ || request_->peer != peer || image.request != request_->push.request) {
    ++w_.dropped.stale;
    return true;
  }
  if (!request_->answer) return false;
  const Pulled& answer = *request_->answer;
  const ExchangeLayout layout = w_.replica.layout();
  if (image.total != (answer.change ? layout.coded : layout.values) || image.round != answer.round) return false;
  w_.bytes_down += body.size();
  request_->progress_ns = w_.clock.now_ns();
  switch (receiver_.on_image(peer, image, body)) {
    case ImageReceiver::Progress::more: return true;
    case ImageReceiver::Progress::complete: break;
    default: return false;
  }
  taking_ = true;
  w_.replica.take({.round = answer.round,
                   .examples_after = answer.examples_after,
                   .counted = answer.counted,
                   .change = answer.change,
                   .bytes = std::make_shared<const std::vector<std::byte>>(std::move(receiver_.bytes()))});
  return true;
}

// The staged contribution is in a result that this worker does not have: it depends on that one now, and pulls before it goes on.
bool ServerRounds::settles(const CatchUp& heal) {
  if (heal.donor != w_.id || !heal.keep_local || !pushed_ || !round_.staged) return false;
  assert(!taking_ && !request_);
  w_.held_round = heal.round;
  w_.held_hash = heal.hash;
  taking_ = settling_ = true;
  w_.replica.take({.round = held(), .examples_after = round_.examples_done, .counted = true, .bytes = nullptr});
  return true;
}

void ServerRounds::on_taken(int64_t, bool ok) {
  assert(taking_);
  taking_ = false;
  if (std::exchange(settling_, false)) {
    round_.staged.reset();
    pushed_ = fresh_ = false;
    ++counted_;
    if (w_.formed_due) return w_.send_formed();
    w_.tell(CaughtUp{.round = held(), .hash = w_.held_hash, .ok = true}, held());
    return go_on();
  }
  assert(request_ && request_->answer);
  const Pulled answer = *request_->answer;
  const PeerId peer = request_->peer;
  if (ok) kept_.answered(request_->push.request, answer.counted, answer.round);
  request_.reset();
  if (!ok) {
    if (w_.formed_due) return w_.send_formed();
    w_.links.close(peer);
    return w_.lose_link(w_.server, "what it sent are no parameters of this job's network", true);
  }
  w_.held_round = answer.round;
  w_.held_hash = answer.hash;
  round_.examples_done = answer.examples_after;
  fresh_ = true;
  if (round_.staged) {
    if (answer.counted) ++counted_;
    else if (w_.state == WorkerCore::State::running) leased_.put_back(round_.staged->ranges);
    round_.staged.reset();
  }
  pushed_ = round_.ready_sent = false;
  if (w_.formed_due) return w_.send_formed();
  go_on();
}

}  // namespace perigee
