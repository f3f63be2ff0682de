// Served rounds: a worker that trains, and the one that holds the parameters.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/membership/worker_impl.h"
#include "cluster/planted.h"
#include "src/graph/plan.h"

namespace perigee {
namespace {

constexpr uint64_t kPatience = 10;  // deadlines that a worker waits for an answer: the server may be evaluating

}  // namespace

size_t Worker::Impl::trainers() const { return members.size() - (work.server != 0 ? 1 : 0); }

// A new generation, or none: who waits for an answer asks again in the next one.
void Worker::Impl::stop_served() {
  if (work.server == 0) return;
  work.desk.reset(replica.layout());
  if (!work.merge_begun) work.merging.clear();
  work.pulls.clear();
  if (work.exchange && !work.taking) {
    if (work.exchange->peer != 0) sender.forget(work.exchange->peer);
    work.receiver.cancel();
    work.exchange.reset();
  }
  work.idle_told = false;
}

void Worker::Impl::go_on_served() {
  if (is_server()) return serve_next();
  if (work.exchange || work.taking) return;
  if (queue.empty()) {
    // What it holds gets old meanwhile; an elastic worker's parameters are its own.
    if (!policy.elastic) work.fresh = false;
    if (policy.merge_every > 1 && !work.idle_told) ask_server({.idle = true});
    return;
  }
  if (!work.fresh) return ask_server({});
  train_local();
}

// ---- a worker that trains ----

// What is staged goes to the server.
void Worker::Impl::push_contribution() {
  assert(staged && staged->finite && staged->payload && !work.exchange);
  const ExchangeLayout layout = replica.layout();
  const std::span<const std::byte> beside = std::span<const std::byte>(replica.exchange_row(0)).subspan(layout.coded);
  auto body = std::make_shared<std::vector<std::byte>>();
  body->reserve(staged->payload->size() + beside.size());
  body->insert(body->end(), staged->payload->begin(), staged->payload->end());
  body->insert(body->end(), beside.begin(), beside.end());
  Push push{.base = local_base,
            .counted = work.counted,
            .bytes = body->size(),
            .payload = staged->payload->size(),
            .examples = staged->examples,
            .steps = staged->steps,
            .examples_before = local_before,
            .examples_per_step = local_per_step,
            .ranges = staged->ranges,
            .figures = staged->figures};
  ask_server(std::move(push), std::move(body));
}

void Worker::Impl::ask_server(Push push, SharedBytes body) {
  assert(!work.exchange);
  push.request = ++next_request;
  push.threads = work.threads;
  push.isa = isa_name(host_isa());
  work.exchange = ServedWork::Exchange{.push = std::move(push), .body = std::move(body), .answer = {}, .progress_ns = clock.now_ns()};
  try_push();
}

// Again when the link is there, or has room, and at every tick.
void Worker::Impl::try_push() {
  if (state != State::running || !work.exchange || work.exchange->peer != 0) return;
  ServedWork::Exchange& exchange = *work.exchange;
  const PeerId peer = links.to(work.server);
  if (peer == 0 || !transport.send(peer, encode(exchange.push, header(held_round)))) return;
  if (exchange.push.idle) {
    work.idle_told = true;
    work.exchange.reset();
    return go_on();
  }
  exchange.peer = peer;
  work.receiver.expect(peer, exchange.push.request);
  work.idle_told = false;
  if (!exchange.body) return;
  work.pushed = true;
  bytes_up += exchange.body->size();
  sender.add(peer, header(held_round), Image{.request = exchange.push.request, .round = exchange.push.base, .hash = held_hash},
             exchange.body);
}

bool Worker::Impl::on_pulled(PeerId peer, const Pulled& pulled) {
  if (!work.exchange || work.exchange->peer != peer || work.exchange->answer || pulled.request != work.exchange->push.request) {
    ++dropped.stale;
    return true;
  }
  const bool asked = work.exchange->push.bytes > 0;
  if (pulled.round < -1 || pulled.hash == 0 || pulled.examples_after < 0 || (pulled.counted && !asked) ||
      pulled.change != (policy.elastic && pulled.counted))
    return false;
  work.exchange->answer = pulled;
  work.exchange->progress_ns = clock.now_ns();
  return true;
}

bool Worker::Impl::on_values(PeerId peer, Image& image, std::span<const std::byte> body) {
  if (!work.exchange || work.taking || work.exchange->peer != peer || image.request != work.exchange->push.request) {
    ++dropped.stale;
    return true;
  }
  if (!work.exchange->answer) return false;
  const Pulled& answer = *work.exchange->answer;
  const ExchangeLayout layout = replica.layout();
  if (image.total != (answer.change ? layout.coded : layout.values) || image.round != answer.round) return false;
  bytes_down += body.size();
  work.exchange->progress_ns = clock.now_ns();
  switch (work.receiver.on_image(peer, image, body)) {
    case ImageReceiver::Progress::more: return true;
    case ImageReceiver::Progress::complete: break;
    default: return false;
  }
  work.taking = true;
  replica.take({.round = answer.round,
                .examples_after = answer.examples_after,
                .counted = answer.counted,
                .change = answer.change,
                .bytes = std::make_shared<const std::vector<std::byte>>(std::move(work.receiver.bytes()))});
  return true;
}

// What is staged is in a result that this worker has not got: it depends on that one now, and pulls before it goes on.
void Worker::Impl::settle_pushed(const Heal& heal) {
  assert(staged && !work.taking && !work.exchange);
  held_round = heal.round;
  held_hash = heal.hash;
  work.taking = work.settling = true;
  replica.take({.round = held_round, .examples_after = examples_done, .counted = true, .bytes = nullptr});
}

void Worker::Impl::on_taken(int64_t, bool ok) {
  assert(work.taking);
  work.taking = false;
  if (std::exchange(work.settling, false)) {
    staged.reset();
    work.pushed = work.fresh = false;
    ++work.counted;
    if (formed_due) return send_formed();
    tell(Healed{.round = held_round, .hash = held_hash, .ok = true}, held_round);
    return go_on();
  }
  assert(work.exchange && work.exchange->answer);
  const Pulled answer = *work.exchange->answer;
  const PeerId peer = work.exchange->peer;
  work.exchange.reset();
  if (!ok) {
    if (formed_due) return send_formed();
    links.close(peer);
    return lose_link(work.server, "what it sent are no parameters of this job's network", true);
  }
  held_round = answer.round;
  held_hash = answer.hash;
  examples_done = answer.examples_after;
  work.fresh = true;
  if (staged) {
    if (answer.counted) ++work.counted;
    else if (state == State::running) queue.insert(queue.begin(), staged->ranges.begin(), staged->ranges.end());
    staged.reset();
  }
  work.pushed = ready_sent = false;
  if (formed_due) return send_formed();
  go_on();
}

// ---- the server ----

bool Worker::Impl::on_push(PeerId peer, const FrameHeader& h, Push push) {
  const WorkerId from = links.who(peer);
  const bool current = h.generation == generation || planted(Bug::push_fence);
  if (!is_server() || !current || (state != State::forming && state != State::running)) {
    ++(h.generation < generation ? dropped.stale : dropped.unexpected);
    return true;
  }
  bytes_down += h.length;
  switch (work.desk.on_push(from, peer, std::move(push))) {
    case ServerDesk::Verdict::refused: return false;
    case ServerDesk::Verdict::stale: ++dropped.stale; return true;
    case ServerDesk::Verdict::taken: break;
  }
  serve_next();
  return true;
}

bool Worker::Impl::on_pushed_bytes(PeerId peer, Image& image, std::span<const std::byte> body) {
  bytes_down += body.size();
  switch (work.desk.on_image(links.who(peer), peer, image, body)) {
    case ServerDesk::Verdict::refused: return false;
    case ServerDesk::Verdict::stale: ++dropped.stale; return true;
    case ServerDesk::Verdict::taken: break;
  }
  serve_next();
  return true;
}

void Worker::Impl::serve_next() {
  if (!is_server() || state != State::running || applying || healing || loading) return;
  if (go->last_round >= 0 && held_round >= go->last_round) return;
  const auto enough = [&] {
    return !work.merging.empty() &&
           (work.merging.size() >= static_cast<size_t>(policy.merge_every) || work.merging.size() + work.desk.idle() >= trainers());
  };
  while (!enough()) {
    std::optional<Arrival> arrival = work.desk.next();
    if (!arrival) break;
    arrival->staleness = held_round - arrival->push.base;
    if (arrival->push.bytes > 0 && arrival->staleness < 0)
      return lose_link(arrival->from, "it trained from a result that is not there yet", true);
    const bool pushes = arrival->push.bytes > 0;
    const bool late = !policy.elastic && arrival->staleness > policy.max_staleness && !planted(Bug::stale_merged);
    if (pushes && late) ++work.discarded;
    if (pushes && !late) work.merging.push_back(std::move(*arrival));
    else if (work.values_round == held_round) answer(*arrival, work.values, false, false);
    else arrival->body.clear(), work.pulls.push_back(std::move(*arrival));
  }
  // An elastic round only tells what it changed.
  if (!work.pulls.empty() && (policy.elastic || !enough())) {
    applying = true;
    apply_ns = clock.now_ns();
    return replica.serve({.round = held_round, .examples_after = examples_done});
  }
  if (enough()) merge();
}

void Worker::Impl::merge() {
  const ExchangeLayout layout = replica.layout();
  const std::span<std::byte> row = replica.exchange_row(0);
  ApplyOrder order{.round = held_round + 1, .workers = static_cast<int64_t>(trainers())};
  work.merge_workers = order.workers;
  applying_entry = {.round = order.round, .generation = generation};
  for (Arrival& arrival : work.merging) {
    const auto payload = static_cast<ptrdiff_t>(arrival.push.payload);
    add_beside(layout, row, std::span<const std::byte>(arrival.body).subspan(arrival.push.payload), &arrival == work.merging.data());
    arrival.staleness = held_round - arrival.push.base;
    order.examples += arrival.push.examples;
    order.staleness += static_cast<double>(arrival.staleness * arrival.push.examples);
    arrival.body.resize(static_cast<size_t>(payload));
    order.payloads.push_back({std::make_shared<const std::vector<std::byte>>(std::move(arrival.body)), arrival.push.examples});
    applying_entry.ranges.insert(applying_entry.ranges.end(), arrival.push.ranges.begin(), arrival.push.ranges.end());
  }
  order.staleness /= static_cast<double>(order.examples);
  work.merged_examples = examples_done + order.examples;
  order.examples_after = work.merged_examples;
  applying_entry.ranges = joined(std::move(applying_entry.ranges));
  applying = work.merge_begun = true;
  apply_ns = clock.now_ns();
  replica.serve(order);
}

void Worker::Impl::on_served(int64_t round, uint64_t hash, const SharedBytes& reply, bool change) {
  assert(applying && hash != 0);
  applying = false;
  if (!change) work.values = reply, work.values_round = round;
  if (!work.merge_begun) {
    for (const Arrival& arrival : std::exchange(work.pulls, {})) answer(arrival, reply, false, false);
  } else {
    assert(round == held_round + 1);
    work.merge_begun = false;
    held_round = round;
    held_hash = hash;
    examples_done = work.merged_examples;
    applying_entry.hash = hash;
    if (!planted(Bug::no_log)) log.push_back(std::move(applying_entry));
    forget_log(-1);
    const std::vector<Arrival> merged = std::exchange(work.merging, {});
    events.on_served(round, hash, examples_done, work.merge_workers, merged);
    if (state == State::running) report_served(merged, hash, reply, change);
    if (!change)
      for (const Arrival& arrival : std::exchange(work.pulls, {})) answer(arrival, reply, false, false);
  }
  if (formed_due) return send_formed();
  serve_next();
}

// The coordinator books it, the workers go on from it. If the membership has changed meanwhile, the log says it, and nobody waits.
void Worker::Impl::report_served(const std::vector<Arrival>& merged, uint64_t hash, const SharedBytes& reply, bool change) {
  Served served{.hash = hash, .discarded = std::exchange(work.discarded, 0)};
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
  const uint64_t now = clock.now_ns();
  sum.apply_s = static_cast<double>(now - apply_ns) * 1e-9;
  times.round = held_round;
  times.add(TracePhase::apply, apply_ns, now, 0);
  times.round = -1;
  tell(served, held_round);
}

void Worker::Impl::answer(const Arrival& arrival, const SharedBytes& bytes, bool counted, bool change) {
  if (state != State::running || links.who(arrival.peer) != arrival.from) return;  // it will ask again
  work.desk.answered(arrival.from);
  const Pulled pulled{.request = arrival.push.request,
                      .round = held_round,
                      .hash = held_hash,
                      .examples_after = examples_done,
                      .counted = counted,
                      .change = change};
  if (!transport.send(arrival.peer, encode(pulled, header(held_round))))
    return links.close(arrival.peer), lose_link(arrival.from, "it takes no answer");
  bytes_up += bytes->size();
  sender.add(arrival.peer, header(held_round), Image{.request = arrival.push.request, .round = held_round, .hash = held_hash}, bytes);
}

// ---- both ----

// False: that is nothing which an honest worker sends.
bool Worker::Impl::on_served_image(PeerId peer, const FrameHeader& h, Image& image, std::span<const std::byte> body) {
  if ((h.generation != generation || (state != State::forming && state != State::running)) && !(is_server() && planted(Bug::push_fence))) {
    ++dropped.stale;
    return true;
  }
  return is_server() ? on_pushed_bytes(peer, image, body) : on_values(peer, image, body);
}

void Worker::Impl::check_served(uint64_t now) {
  if (work.server == 0 || is_server() || state != State::running) return;
  if (links.to(work.server) != 0) try_push();
  if (!work.exchange || work.taking || now - work.exchange->progress_ns <= kPatience * ns(policy.deadline_ms)) return;
  work.exchange->progress_ns = now;
  lose_link(work.server, "no answer of the server for " +
                             std::to_string(static_cast<int64_t>(kPatience) * static_cast<int64_t>(policy.deadline_ms)) + " ms");
}

}  // namespace perigee
