// The coordinator and its standby: what is copied to it, what is asked of it, and, once the standby coordinates, what the one before is
// told.
#include <algorithm>
#include <cassert>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr uint64_t kNotifyNs = 5'000'000'000;  // between two attempts to reach the coordinator that was
constexpr size_t kMaxAsked = 16;
constexpr size_t kMaxMarks = 65536;

}  // namespace

Error superseded_by(uint64_t generation, const std::string& address, uint64_t own) {
  return Error(ErrorKind::cluster, {.what = kSuperseded,
                                    .got = "generation " + std::to_string(generation),
                                    .expected = "generation " + std::to_string(own),
                                    .hint = address.empty() ? "its workers follow the other one; nothing is lost"
                                                            : "the run goes on at " + address + "; nothing is lost"});
}

bool is_superseded(const Error& error) { return error.kind() == ErrorKind::cluster && error.parts().what == kSuperseded; }

// ---- who may coordinate ----

LeaseClaim CoordinatorCore::claim(std::span<const WorkerId> followers) const {
  LeaseClaim claim{.generation = generation,
                   .address = options.address,
                   .first = !options.takes_over && in_force.empty(),
                   .is_standby = options.is_standby,
                   .followers = followers,
                   .in_force = in_force};
  if (follower.peer != 0) claim.standby = follower.consent == generation ? LeaseClaim::Consent::given : LeaseClaim::Consent::possible;
  return claim;
}

bool CoordinatorCore::could_claim(std::span<const WorkerId> followers) const {
  return lease == nullptr || lease->may_be_granted(claim(followers));
}

// All members have answered to this generation. Before anything is decided in it, it must be the only one.
void CoordinatorCore::claim_lease() {
  assert(phase == Phase::forming && formed_count == members.size());
  claiming = false;
  if (lease == nullptr || in_force_generation() == generation) return resolve();
  switch (lease->acquire(claim(members))) {
    case LeaseStore::Answer::granted: establish(); return resolve();
    case LeaseStore::Answer::refused: return wait_for_votes();
    case LeaseStore::Answer::pending: break;
  }
  claiming = true;
  if (follower.peer != 0 && follower.asked != generation) ask_standby();
}

// Whatever it answers, and however late: it may believe from now on that this membership is in force.
void CoordinatorCore::ask_standby() {
  if (in_force.size() > kMaxAsked) return wait_for_votes();
  const Membership proposal{.generation = generation, .ids = members};
  follower.asked = generation;
  in_force.push_back(proposal);
  tell_standby(Replicate{.offset = follower.sent, .membership = proposal, .consent = true});
}

void CoordinatorCore::establish() {
  in_force = {Membership{.generation = generation, .established = true, .ids = members}};
  outvoted_told = false;
  established = true;
  if (follower.peer != 0) tell_standby(Replicate{.offset = follower.sent, .membership = in_force.front()});
  if (!options.is_standby) return;
  // The votes that the old coordinator would need have answered to this generation and will not go back: no other coordinator can go on.
  if (lease == &votes) lease = nullptr;
  old.again_ns = clock.now_ns();
}

// ": missing are ..."; empty when nobody is.
std::string CoordinatorCore::missing() const {
  std::vector<WorkerId> here;
  for (const auto& [id, node] : nodes) here.push_back(id);
  const std::string names = who_is_missing(here, in_force, options.who);
  return names.empty() ? "" : ": missing are " + names;
}

void CoordinatorCore::wait_for_votes() {
  if (!outvoted_told)
    event("waiting", nullptr,
          options.is_standby ? "fewer than half of the workers have come over" + missing() : "no majority of the workers is here",
          options.is_standby ? "waits for more: the coordinator may be alive with the others"
                             : "waits for more workers or for the standby, which may have taken over");
  outvoted_told = true;
  disband(options.takes_over ? Phase::recovering : Phase::waiting);
}

void CoordinatorCore::on_witness(const Node&, const Witness& witness) {
  if (!options.is_standby || lease == nullptr) return;  // an old coordinator knows its own memberships, and may believe only those
  for (const Membership& membership : witness.memberships) remember(&in_force, membership);
}

// ---- what the standby gets ----

void CoordinatorCore::on_follow(PeerId peer, const FrameHeader& h, const Follow& follow) {
  strangers.erase(peer);
  if (follow.version != PERIGEE_VERSION || (h.job != 0 && h.job != options.job_id) || options.standby.empty())
    return refuse(peer, {.kind = 5,
                         .what = options.standby.empty() ? "this run has no standby" : "the standby is of another version or run",
                         .got = follow.version,
                         .expected = PERIGEE_VERSION,
                         .hint = "`perigee train --standby HOST:PORT` starts one that fits, on an agent of the same version"});
  if (!follow.prepared) {
    transport.send(peer, encode(Inherit{.job = options.job, .folder = options.folder, .tuning = options.tuning, .launch = options.launch},
                                header(books.round())));
    return transport.close(peer);
  }
  if (!formed_once && h.generation > generation) generation = h.generation;  // this one was started again, and the standby was not
  if (follower.peer != 0) lose_standby("it came again on another connection");
  const std::vector<std::byte> bytes = mirror.read();
  const bool same = follow.bytes <= bytes.size() && xxh3_64(std::span(bytes).first(static_cast<size_t>(follow.bytes))) == follow.hash;
  follower = {.peer = peer,
              .name = follow.name,
              .host = follow.host,
              .address = follow.address,
              .heard_ns = clock.now_ns(),
              .sent = same ? follow.bytes : 0,
              .lagging = true};
  tell_standby(Replicate{.offset = follower.sent,
                         .membership = in_force.empty() || !in_force.front().established ? Membership{} : in_force.front(),
                         .session = session,
                         .steering = steering()});
  catch_up_standby();
  send_checkpoint();
  for (const auto& [id, node] : nodes) tell_where(node);
  Json line = Json(Json::Object{{"event", "standby_ready"},
                                {"standby", follower.name},
                                {"host", follower.host},
                                {"address", follower.address},
                                {"done", "it takes over should this process be lost"}});
  events.on_event(line);
  if (phase == Phase::waiting || phase == Phase::recovering) request_form();
  else if (claiming) claim_lease();
}

void CoordinatorCore::on_standby_frame(const FrameHeader& h, std::span<const std::byte> payload) {
  Replicated m;
  if (h.type != MessageType::replicated || h.job != options.job_id || !decode(payload, &m)) {
    ++dropped.malformed;
    return lose_standby("it sent a frame that makes no sense");
  }
  follower.heard_ns = clock.now_ns();
  while (!follower.marks.empty() && follower.marks.front().bytes <= m.bytes) {
    follower.round = follower.marks.front().round;
    follower.marks.pop_front();
  }
  if (m.consent <= follower.consent) return;
  follower.consent = m.consent;
  const auto agreed = std::find_if(in_force.begin(), in_force.end(), [&](const Membership& x) { return x.generation == m.consent; });
  if (agreed == in_force.end() || agreed->established) return;
  // In force by its word, whether or not it is what this coordinator is about now.
  agreed->established = true;
  in_force.erase(in_force.begin(), agreed);
  if (claiming && m.consent == generation) claim_lease();
}

void CoordinatorCore::lose_standby(const std::string& cause) {
  if (follower.peer == 0) return;
  transport.close(follower.peer);
  sender.forget(follower.peer);
  follower.peer = 0;
  follower.marks.clear();
  events.on_event(Json(Json::Object{{"event", "standby_lost"},
                                    {"standby", follower.name},
                                    {"host", follower.host},
                                    {"cause", cause},
                                    {"done", "the run goes on; its agent starts another one"}}));
  if (claiming) claim_lease();
}

bool CoordinatorCore::tell_standby(const Replicate& message, std::span<const std::byte> body) {
  Replicate told = message;
  told.working = phase == Phase::forming || phase == Phase::running;
  for (const WorkerId id : told.membership.ids)
    if (const auto found = nodes.find(id); found != nodes.end())
      told.who.push_back({.id = id, .name = found->second.name, .host = host_name_in(found->second.host)});
  follower.sent_ns = clock.now_ns();
  return transport.send(follower.peer, encode(told, header(books.round()), body.size()), body);
}

void CoordinatorCore::on_appended(std::span<const std::byte> record) {
  if (follower.peer == 0 || follower.lagging) return;
  if (follower.marks.size() >= kMaxMarks || !tell_standby(Replicate{.offset = follower.sent}, record)) {
    follower.lagging = true;  // when there is room again
    return;
  }
  follower.sent += record.size();
  LedgerRecord about;
  if (decode_record(record, &about) == 0) return;
  if (about.kind == LedgerRecord::Kind::round || about.kind == LedgerRecord::Kind::voided)
    follower.marks.push_back({follower.sent, about.round});
}

// From the store: all that it does not have yet.
void CoordinatorCore::catch_up_standby() {
  if (follower.peer == 0 || !follower.lagging || follower.marks.size() >= kMaxMarks) return;
  const std::vector<std::byte> bytes = mirror.read();
  while (follower.sent < bytes.size()) {
    const auto part = std::span(bytes).subspan(static_cast<size_t>(follower.sent), std::min(kChunkBytes, bytes.size() - follower.sent));
    if (!tell_standby(Replicate{.offset = follower.sent}, part)) return;
    follower.sent += part.size();
  }
  follower.lagging = false;
  if (books.all_written()) follower.marks.push_back({follower.sent, books.round()});
}

void CoordinatorCore::send_checkpoint() {
  if (follower.peer == 0 || !options.resume_image || options.resume_round < 0) return;
  const uint64_t request = ++next_request;
  tell_standby(Replicate{.offset = follower.sent, .image = request});
  sender.forget(follower.peer);  // an older one that is still on its way
  sender.add(follower.peer, header(options.resume_round), Image{.request = request, .round = options.resume_round}, options.resume_image);
}

void CoordinatorCore::tell_steering() {
  if (follower.peer != 0) tell_standby(Replicate{.offset = follower.sent, .steering = steering()});
}

void CoordinatorCore::set_session(std::string json) {
  session = std::move(json);
  if (follower.peer != 0) tell_standby(Replicate{.offset = follower.sent, .session = session});
}

void CoordinatorCore::tell_where(const Node& node) {
  if (!follower.address.empty()) tell(node, Coordinators{{options.address, follower.address}}, books.round());
}

// Workers remember a round until its record can be had without them.
int64_t CoordinatorCore::safe_round() const {
  if (planted(Bug::synced_too_early)) return books.round();
  return options.standby.empty() ? books.synced() : std::min(books.synced(), follower.round);
}

void CoordinatorCore::check_standby(uint64_t now) {
  if (follower.peer != 0) {
    if (now > follower.heard_ns && now - follower.heard_ns > ns(options.silent_ms + 2 * options.beat_ms))
      lose_standby("silent for " + std::to_string((now - follower.heard_ns) / 1'000'000) + " ms");
    else if (now > follower.sent_ns && now - follower.sent_ns >= ns(options.beat_ms)) tell_standby(Replicate{.offset = follower.sent});
    catch_up_standby();
  }
  if (phase == Phase::forming && claiming) claim_lease();
  if (lease != nullptr && phase != Phase::stopped && lease->renew(generation) == LeaseStore::Answer::refused)
    fail(superseded_by(lease->holder().generation, lease->holder().address, generation));
}

// ---- the coordinator that was ----

// It may have been stopped, or cut off, for any time: it is told as soon as it can be reached.
void CoordinatorCore::notify_superseded(uint64_t now) {
  if (old.again_ns == 0 || now < old.again_ns || options.old_coordinator.empty()) return;
  if (old.peer != 0) transport.close(old.peer);
  old.again_ns = now + kNotifyNs;
  old.peer = transport.connect(options.old_coordinator, old.again_ns);
}

void CoordinatorCore::on_taken_over(PeerId peer, const FrameHeader& h, const TakenOver& message) {
  strangers.erase(peer);
  transport.close(peer);
  // One that was started again may have its generation already, from a worker that came here first.
  const bool newer = h.generation > generation || term_of(h.generation) > started_term;
  if (h.job == options.job_id && newer) fail(superseded_by(h.generation, message.address, generation));
}

}  // namespace perigee
