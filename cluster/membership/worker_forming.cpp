#include <algorithm>
#include <cassert>

#include "cluster/membership/votes.h"
#include "cluster/membership/worker_impl.h"
#include "cluster/planted.h"
#include "cluster/rounds/inner_plan.h"

namespace perigee {
namespace {

constexpr size_t kMaxLog = 4096;  // rounds; a ledger that has not been on disk for longer cannot be completed without a gap

}  // namespace

void Worker::Impl::on_form(const FrameHeader& h, Form form) {
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
  work.server = form.server;
  work.desk.reset(replica.layout());
  bear_witness();  // of what was before
  Membership proposed{.generation = generation};
  for (const Member& member : members) proposed.ids.push_back(member.id);
  remember(&memberships, proposed);
  state = State::forming;
  go.reset();
  healing.reset();
  receiver.cancel();
  forget_log(form.synced);
  exchange.reset(members.size(), bucket_limit(), replica.layout());
  if (inner.count > 0) reset_inner();
  far.clear();
  for (size_t r = 0; r < members.size(); ++r)
    if (site_of(policy.inner, members, static_cast<int>(r)) != site_of(policy.inner, members, rank)) far.insert(members[r].id);
  std::vector<Member> partners = members;
  if (work.server != 0 && !is_server()) std::erase_if(partners, [&](const Member& m) { return m.id != id && m.id != work.server; });
  std::set<WorkerId> dead;
  for (const DeadLink& link : form.dead)
    if (link.low == id || link.high == id) dead.insert(link.low == id ? link.high : link.low);
  links.form(job, generation, id, partners, std::move(dead));
  send_formed();
}

void Worker::Impl::send_formed() {
  // What the replica is doing decides which result is held: the answer waits for it.
  formed_due = (applying && !planted(Bug::formed_too_soon)) || loading.has_value() || work.taking;
  if (formed_due) return;
  tell(Formed{.round = held_round,
              .hash = held_hash,
              .fingerprint = fingerprint,
              .pending = pending(),
              .base = local_base,
              .log = {log.begin(), log.end()},
              .data = state == State::ready ? replica.data_prints() : std::vector<DataPrint>(),
              .broken = std::exchange(inner.broken, {})},
       held_round);
}

void Worker::Impl::forget_log(int64_t synced) {
  // The last two stay: they show which line of parameters this is.
  while (log.size() > 2 && log.front().round < synced) log.pop_front();
  while (log.size() > kMaxLog) log.pop_front();
}

void Worker::Impl::on_heal(const Heal& heal) {
  if (loading || applying || work.taking) {
    ++dropped.unexpected;
    return;
  }
  if (heal.donor == id && heal.keep_local && policy.served && work.pushed && staged) return settle_pushed(heal);
  if (!heal.keep_local && !planted(Bug::healed_keeps_work)) stop_work(false);
  else if (policy.partial()) join_staged();  // of another round than that for which it was staged
  if (heal.donor == id) {
    tell(Healed{.round = held_round, .hash = held_hash, .ok = true}, held_round);
    return go_on();
  }
  if (state == State::forming) mark(TracePhase::forming);
  else marked_ns = clock.now_ns();
  if (heal.donor == 0 && heal.round < 0) return load(-1, 0, nullptr, {}, false);
  healing = Healing{.order = heal, .progress_ns = clock.now_ns()};
  fetch_if_possible();
}

void Worker::Impl::fetch_if_possible() {
  assert(healing && !healing->fetching);
  const PeerId from = healing->order.donor == 0 ? coordinator : links.to(healing->order.donor);
  if (from == 0) return;  // when the link is there
  healing->fetching = true;
  receiver.expect(from, ++next_request);
  transport.send(from, encode(Fetch{.from = id, .request = next_request}, header(healing->order.round)));
}

void Worker::Impl::on_worker_frame(PeerId peer, const FrameHeader& h, std::span<const std::byte> payload) {
  if (!links.owns(peer)) {
    ++dropped.unexpected;
    return;
  }
  if (job != 0 && h.job != job) {
    ++dropped.job;
    if (links.who(peer) == 0) links.close(peer);
    return;
  }
  bool sound = false;
  if (h.type == MessageType::link) {
    Link link;
    sound = decode(payload, &link);
    if (sound && links.on_link(peer, link, h.generation)) link_ready(link.from);
    if (sound) return;
  } else if (links.who(peer) != 0 && h.type == MessageType::fetch) {
    Fetch fetch;
    sound = decode(payload, &fetch);
    if (sound) on_fetch(peer, fetch);
  } else if (links.who(peer) != 0 && h.type == MessageType::image) {
    Image image;
    std::span<const std::byte> body;
    sound = decode(payload, &image, &body);
    if (sound && work.server != 0) sound = on_served_image(peer, h, image, body);
    else if (sound) on_image(peer, image, body);
  } else if (links.who(peer) != 0 && h.type == MessageType::push) {
    Push push;
    sound = decode(payload, &push) && on_push(peer, h, std::move(push));
  } else if (links.who(peer) != 0 && h.type == MessageType::pulled) {
    Pulled pulled;
    sound = decode(payload, &pulled) && (h.generation != generation || on_pulled(peer, pulled));
  } else {
    ++dropped.unexpected;
    return;
  }
  if (sound) return;
  ++dropped.malformed;
  const WorkerId sender_id = links.who(peer);
  links.close(peer);
  if (sender_id != 0) lose_link(sender_id, "it sent a malformed frame");
}

void Worker::Impl::link_ready(WorkerId peer) {
  if (healing && !healing->fetching && healing->order.donor == peer) fetch_if_possible();
  exchange.on_writable(peer);
  after_exchange();
  try_push();
  inner_exchange.on_writable(peer);
  after_inner();
}

void Worker::Impl::lose_link(WorkerId peer, const std::string& why, bool at_fault) {
  if (state != State::forming && state != State::running) return;
  if (reported[peer] == generation) return;
  reported[peer] = generation;
  if (!planted(Bug::link_loss_untold)) tell(LinkLost{.peer = peer, .at_fault = at_fault, .why = why}, held_round);
}

void Worker::Impl::on_fetch(PeerId peer, const Fetch& fetch) {
  if (held_hash == 0) {
    Image none{.request = fetch.request, .why = "this worker holds no result"};
    transport.send(peer, encode(none, header(-1)));
    return;
  }
  request_snapshot(true, peer, fetch.request);
}

void Worker::Impl::request_snapshot(bool with_optimizer, PeerId peer, uint64_t request) {
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

void Worker::Impl::on_snapshot(uint64_t request, int64_t round, uint64_t hash, const SharedBytes& image) {
  const auto it = snapshots.find(request);
  assert(it != snapshots.end());
  const std::vector<Waiter> waiters = std::move(it->second.waiters);
  snapshots.erase(it);
  for (const Waiter& waiter : waiters) {
    Image first{.request = waiter.request, .round = round, .hash = hash};
    if (!image) first.why = "the image could not be made";
    const bool to_worker = links.who(waiter.peer) != 0;
    if (!to_worker && waiter.peer != coordinator) continue;  // it is gone
    if (to_worker)
      for (const LogEntry& entry : log)
        if (entry.round <= round) first.log.push_back(entry);
    if (!sender.add(waiter.peer, header(round), std::move(first), image))
      transport.send(waiter.peer, encode(Image{.request = waiter.request, .why = "too many transfers"}, header(round)));
  }
}

void Worker::Impl::on_image(PeerId peer, Image& image, std::span<const std::byte> body) {
  bytes_down += body.size();
  if (healing) healing->progress_ns = clock.now_ns();
  switch (receiver.on_image(peer, image, body)) {
    case ImageReceiver::Progress::unexpected: ++dropped.unexpected; return;
    case ImageReceiver::Progress::more: return;
    case ImageReceiver::Progress::failed: {
      if (!healing) return;
      healing.reset();
      tell(Healed{.round = held_round, .hash = held_hash, .ok = false}, held_round);
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

void Worker::Impl::load(int64_t round, uint64_t hash, SharedBytes image, std::vector<LogEntry> entries, bool keep_local) {
  assert(!loading && !applying);
  loading = Loading{round, hash, std::move(entries), keep_local};
  replica.load(round, std::move(image), keep_local);
}

void Worker::Impl::on_loaded(int64_t round, uint64_t hash) {
  assert(loading && loading->round == round && hash != 0);
  const bool ok = loading->hash == 0 || loading->hash == hash;
  held_round = round;
  held_hash = hash;
  log.assign(loading->log.begin(), loading->log.end());
  if (log.empty()) log.push_back({.round = round, .generation = generation, .hash = hash});  // the beginning of a line
  loading.reset();
  mark(TracePhase::heal);
  if (staged) staged_ns = marked_ns;  // it did not wait for others until now
  work.fresh = false, work.counted = 0, work.values_round = -2;
  if (work.server != 0 && !is_server()) held_hash = 0;  // no result yet: it pulls one
  if (is_server()) events.on_restored(held_round, held_hash);
  if (formed_due) return send_formed();
  if (coordinator == 0 || (state != State::forming && state != State::running)) return;
  tell(Healed{.round = held_round, .hash = held_hash, .ok = ok}, held_round);
  if (state != State::running) return;
  // A late worker has caught up: what it staged goes into the next round.
  exchange.expect(held_round + 1);
  expect_inner();
  ready_sent = false;
  if (staged) send_ready();
  else go_on();
}

}  // namespace perigee
