#include <algorithm>
#include <cassert>

#include "cluster/membership/votes.h"
#include "cluster/membership/worker_core.h"
#include "cluster/planted.h"
#include "cluster/rounds/local/inner_plan.h"

namespace perigee {
namespace {

constexpr size_t kMaxLog = 4096;  // rounds; a ledger that has not been on disk for longer cannot be completed without a gap

}  // namespace

void WorkerCore::on_propose(const FrameHeader& h, Propose form) {
  if (state == State::joining || state == State::opening || h.generation <= generation) {
    ++(h.generation <= generation ? dropped.stale : dropped.unexpected);
    if (h.generation < generation) {
      tell(Refuse{.retry = false,
                  .what = "the coordinator's generation is old",
                  .got = std::to_string(h.generation),
                  .expected = std::to_string(generation)},
           -1);
      lose_coordinator("its generation " + std::to_string(h.generation) + " is older than " + std::to_string(generation));
    }
    return;
  }
  const auto self = std::find_if(form.members.begin(), form.members.end(), [&](const Member& m) { return m.id == id; });
  const bool server_is_there = std::any_of(form.members.begin(), form.members.end(), [&](const Member& m) { return m.id == form.server; });
  if (self == form.members.end() || server_is_there != policy.served) {
    ++dropped.unexpected;
    return;
  }
  stop_work(true);
  if (state != State::forming) marked_ns = clock.now_ns();
  generation = h.generation;
  rank = static_cast<int>(self - form.members.begin());
  members = std::move(form.members);
  server = form.server;
  send_memberships();  // of what was before
  Membership proposed{.generation = generation};
  for (const Member& member : members) proposed.ids.push_back(member.id);
  remember(&memberships, proposed);
  state = State::forming;
  epoch_start.reset();
  healing.reset();
  receiver.cancel();
  forget_log(form.synced);
  for (const auto& protocol : protocols.all()) protocol->on_propose();
  far.clear();
  for (size_t r = 0; r < members.size(); ++r)
    if (site_of(policy.inner, members, static_cast<int>(r)) != site_of(policy.inner, members, rank)) far.insert(members[r].id);
  std::vector<Member> partners = members;
  if (server != 0 && !is_server()) std::erase_if(partners, [&](const Member& m) { return m.id != id && m.id != server; });
  std::set<WorkerId> dead;
  for (const DeadLink& link : form.dead)
    if (link.low == id || link.high == id) dead.insert(link.low == id ? link.high : link.low);
  links.form(job, generation, id, partners, std::move(dead));
  stepped.clear();
  send_formed();
}

void WorkerCore::send_formed() {
  // The replica's current work decides which result is held: the answer waits for it.
  formed_due = (rounds->busy() && !planted(Bug::formed_too_soon)) || loading.has_value();
  if (formed_due) return;
  tell(Acknowledge{.round = held_round,
                   .hash = held_hash,
                   .fingerprint = fingerprint,
                   .pending = pending(),
                   .base = round.local_base,
                   .log = {log.begin(), log.end()},
                   .data = state == State::ready ? replica.data_prints() : std::vector<DataPrint>(),
                   .broken = rounds->take_broken(),
                   .kept_from = rounds->kept_from(),
                   .made = rounds->made()},
       held_round);
}

void WorkerCore::forget_log(int64_t synced) {
  // The last two stay: they show which line of parameters this is.
  while (log.size() > 2 && log.front().round < synced) log.pop_front();
  while (log.size() > kMaxLog) log.pop_front();
}

void WorkerCore::hold(LogEntry entry) {
  held_round = entry.round;
  held_hash = entry.hash;
  if (!planted(Bug::no_log)) log.push_back(std::move(entry));
  forget_log(-1);
}

void WorkerCore::on_catch_up(const CatchUp& heal) {
  if (loading || rounds->busy()) {
    ++dropped.unexpected;
    return;
  }
  if (rounds->settles(heal)) return;
  if (!heal.keep_local && !planted(Bug::healed_keeps_work)) stop_work(false);
  else rounds->keep_work();
  if (heal.donor == id) {
    tell(CaughtUp{.round = held_round, .hash = held_hash, .ok = true}, held_round);
    return rounds->go_on();
  }
  if (state == State::forming) mark(TracePhase::forming);
  else marked_ns = clock.now_ns();
  if (heal.donor == 0 && heal.round < 0) return load(-1, 0, nullptr, {}, false);
  healing = Healing{.order = heal, .progress_ns = clock.now_ns()};
  fetch_if_possible();
}

void WorkerCore::fetch_if_possible() {
  assert(healing && !healing->fetching);
  const PeerId from = healing->order.donor == 0 ? coordinator : links.to(healing->order.donor);
  if (from == 0) return;  // when the link is there
  healing->fetching = true;
  receiver.expect(from, ++next_request);
  transport.send(from, encode(Fetch{.from = id, .request = next_request}, header(healing->order.round)));
}

void WorkerCore::link_ready(WorkerId peer) {
  if (healing && !healing->fetching && healing->order.donor == peer) fetch_if_possible();
  rounds->on_writable(peer);
}

void WorkerCore::lose_link(WorkerId peer, const std::string& why, bool at_fault, bool down) {
  if (state != State::forming && state != State::running) return;
  if (reported[peer] == generation) return;
  reported[peer] = generation;
  if (!planted(Bug::link_loss_untold)) tell(LinkLost{.peer = peer, .at_fault = at_fault, .down = down, .why = why}, held_round);
}

void WorkerCore::on_fetch(PeerId peer, const Fetch& fetch) {
  if (held_hash == 0) {
    Image none{.request = fetch.request, .why = "this worker holds no result"};
    transport.send(peer, encode(none, header(-1)));
    return;
  }
  request_snapshot(true, peer, fetch.request);
}

void WorkerCore::request_snapshot(bool with_optimizer, PeerId peer, uint64_t request) {
  for (auto& [number, snapshot] : snapshots) {
    if (snapshot.with_optimizer != with_optimizer || snapshot.waiters.size() >= kMaxTransfers) continue;
    snapshot.waiters.push_back({peer, request});
    return;
  }
  if (snapshots.size() >= kMaxTransfers) {
    ++dropped.unexpected;
    return;
  }
  const uint64_t number = ++next_request;
  snapshots[number] = {with_optimizer, {{peer, request}}};
  replica.snapshot(number, with_optimizer);
}

void WorkerCore::on_snapshot(uint64_t request, int64_t at, uint64_t hash, const SharedBytes& image) {
  const auto it = snapshots.find(request);
  assert(it != snapshots.end());
  const std::vector<Waiter> waiters = std::move(it->second.waiters);
  snapshots.erase(it);
  for (const Waiter& waiter : waiters) {
    Image first{.request = waiter.request, .round = at, .hash = hash};
    if (!image) first.why = "the image could not be made";
    const bool to_worker = links.who(waiter.peer) != 0;
    if (!to_worker && waiter.peer != coordinator) continue;  // it is gone
    if (to_worker)
      for (const LogEntry& entry : log)
        if (entry.round <= at) first.log.push_back(entry);
    if (!sender.add(waiter.peer, header(at), std::move(first), image))
      transport.send(waiter.peer, encode(Image{.request = waiter.request, .why = "too many transfers"}, header(at)));
  }
}

void WorkerCore::on_image(PeerId peer, Image& image, std::span<const std::byte> body) {
  bytes_down += body.size();
  if (healing) healing->progress_ns = clock.now_ns();
  switch (receiver.on_image(peer, image, body)) {
    case ImageReceiver::Progress::unexpected: ++dropped.unexpected; return;
    case ImageReceiver::Progress::more: return;
    case ImageReceiver::Progress::failed: {
      if (!healing) return;
      healing.reset();
      tell(CaughtUp{.round = held_round, .hash = held_hash, .ok = false}, held_round);
      return;
    }
    case ImageReceiver::Progress::complete: break;
  }
  if (!healing) return;
  const bool keep_local = healing->order.keep_local;
  healing.reset();
  load(receiver.round(), receiver.hash(), std::make_shared<const std::vector<std::byte>>(std::move(receiver.bytes())),
       std::move(receiver.log()), keep_local);
}

void WorkerCore::load(int64_t at, uint64_t hash, SharedBytes image, std::vector<LogEntry> entries, bool keep_local) {
  assert(!loading && !round.applying);
  loading = Loading{at, hash, std::move(entries), keep_local};
  replica.load(at, std::move(image), keep_local);
}

void WorkerCore::on_loaded(int64_t at, uint64_t hash) {
  assert(loading && loading->round == at && hash != 0);
  const bool ok = loading->hash == 0 || loading->hash == hash;
  held_round = at;
  held_hash = hash;
  log.assign(loading->log.begin(), loading->log.end());
  if (log.empty()) log.push_back({.round = at, .generation = generation, .hash = hash});  // the beginning of a line
  loading.reset();
  mark(TracePhase::heal);
  if (round.staged) round.staged_ns = marked_ns;  // it did not wait for others until now
  rounds->on_loaded();
  if (formed_due) return send_formed();
  if (coordinator == 0 || (state != State::forming && state != State::running)) return;
  tell(CaughtUp{.round = held_round, .hash = held_hash, .ok = ok}, held_round);
  if (state != State::running) return;
  rounds->resume();  // a late worker has caught up: what it staged goes into the next round
}

void WorkerCore::on_start_epoch(StartEpoch message) {
  const bool holds = message.base == held_round && message.hash == held_hash;
  if (state != State::forming || healing || loading || rounds->busy() || (!holds && (server == 0 || is_server()))) {
    ++dropped.unexpected;
    return;
  }
  if (message.per_epoch <= 0 || message.batch <= 0 || message.global <= 0 || message.leaves <= 0 || message.position < 0 ||
      message.position > message.per_epoch)
    return lose_coordinator("its plan is not one");
  const bool takes_settings = !(planted(Bug::setting_untold) && !has_gone);
  if (message.settings != settings && takes_settings) settings = message.settings, replica.set_options(settings);
  has_gone = true;
  epoch_start = std::move(message);
  state = State::running;
  Membership established{.generation = generation, .established = true};
  for (const Member& member : members) established.ids.push_back(member.id);
  remember(&memberships, established);
  mark(TracePhase::forming);
  if (round.staged) round.staged_ns = marked_ns;
  committed = epoch_start->base;
  round.paused = false;
  round.examples_done = epoch_start->examples;
  WorkerRounds* next = &protocols.of(*epoch_start);
  if (next != rounds) rounds->drop();  // what one protocol has begun has no place in another
  rounds = next;
  rounds->on_start_epoch();
}

void WorkerCore::on_commit(const FrameHeader& h, const Commit& commit) {
  committed = std::max(committed, h.round);
  forget_log(commit.synced);
  rounds->on_commit();
}

void WorkerCore::on_evaluate(const Evaluate& order) {
  if (!order.part.empty()) {
    ++evaluating;
    return replica.evaluate(order);
  }
  round.paused = false;
  rounds->go_on();
}

}  // namespace perigee
