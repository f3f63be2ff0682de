// The workers of a run, one by one: which may join, whether it lives and makes progress, and what becomes of its work when it does not.
#include <algorithm>
#include <cassert>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "src/io/digest.h"

namespace perigee {

void CoordinatorCore::refuse(PeerId peer, Refuse message) {
  transport.send(peer, encode(message, header(-1)));
  transport.close(peer);
}

// The answer to a worker that may not join.
std::optional<Refuse> CoordinatorCore::why_refused(const FrameHeader& h, const Join& join) const {
  if (join.version != PERIGEE_VERSION)
    return Refuse{.kind = 5,
                  .what = "the worker is of another version",
                  .got = join.version,
                  .expected = PERIGEE_VERSION,
                  .hint = "install the same version on every machine"};
  if (h.job != 0 && h.job != options.job_id)
    return Refuse{.kind = 5,
                  .what = "the worker is of another run",
                  .got = hex_digest(h.job),
                  .expected = hex_digest(options.job_id),
                  .hint = "start a new worker for this run"};
  if (join.fingerprint != 0 && fingerprint != 0 && join.fingerprint != fingerprint)
    return Refuse{.kind = 3,
                  .what = "the worker has another data set",
                  .got = "data with hash " + hex_digest(join.fingerprint),
                  .expected = hex_digest(fingerprint),
                  .hint = "give every machine the same files, or set data.at = \"coordinator\""};
  if (nodes.size() >= kMaxWorkers)
    return Refuse{.kind = 7,
                  .retry = true,
                  .what = "too many workers",
                  .got = std::to_string(nodes.size() + 1),
                  .expected = "at most " + std::to_string(kMaxWorkers),
                  .hint = "it asks again by itself, should one leave"};
  if (std::optional<Refuse> refused = partitions.why_refused(join)) return refused;
  if (const std::string why = rounds->why_not(join); !why.empty()) return Refuse{.kind = 5, .retry = options.policy.served, .what = why};
  return std::nullopt;
}

void CoordinatorCore::on_join(PeerId peer, const FrameHeader& h, Join join) {
  strangers.erase(peer);
  if (const auto off = sent_off.find(join.id); off != sent_off.end() && off->second.address == join.address)
    return refuse(peer, {.kind = 5, .what = off->second.cause});
  if (stays_away(join)) {
    away[join.name] = {.since_ns = clock.now_ns(), .pid = join.pid, .lives = true};
    return refuse(peer, {.kind = 5,
                         .retry = true,
                         .what = "no link between it and " + cut_off.at(join.name).from + " held a moment ago",
                         .hint = "it asks again by itself; a firewall between the two may be the reason"});
  }
  if (std::optional<Refuse> refused = why_refused(h, join)) {
    Json line = Json::object();
    line.set("event", "worker_refused");
    line.set("worker", join.name);
    line.set("host", host_name_in(join.host));
    line.set("cause", refused->what);
    line.set("got", refused->got);
    line.set("expected", refused->expected);
    if (!refused->hint.empty()) line.set("advice", refused->hint);
    events.on_event(line);
    return refuse(peer, *std::move(refused));
  }
  if (h.generation > generation) {
    if (formed_once) return fail(superseded_by(h.generation, follower.address, generation));
    generation = options.is_standby ? next_term(h.generation) : h.generation;
  }
  if (const auto same = nodes.find(join.id); same != nodes.end() && same->second.address != join.address) join.id = 0;  // another one's
  if (join.id != 0 && nodes.contains(join.id)) lose(join.id, "worker_lost", "it came again on another connection", Return::soon);
  if (phase == Phase::stopped) return;
  const WorkerId id = join.id != 0 ? join.id : next_id;
  next_id = std::max(next_id, id + 1);
  welcome(peer, id, std::move(join));
}

void CoordinatorCore::welcome(PeerId peer, WorkerId id, Join join) {
  const auto moved = partitions.take(join);
  Node& node = nodes[id];
  node.id = id;
  node.name = std::move(join.name);
  node.host = std::move(join.host);
  node.site = std::move(join.site);
  node.address = std::move(join.address);
  node.peer = peer;
  node.joined = ++joins;
  node.heard_ns = node.stepped_ns = node.beat_ns = node.told_ns = clock.now_ns();
  node.round = join.round;
  node.hash = join.hash;
  node.server = join.server;
  node.pid = join.pid;
  peers[peer] = id;
  away.erase(node.name);
  if (options.trace) timelines[id] = {.name = node.name};
  tell(node,
       Welcome{.version = PERIGEE_VERSION,
               .id = id,
               .job = options.job,
               .folder = options.folder,
               .tuning = options.tuning,
               .threads = options.threads,
               .sources = options.sources,
               .trace = options.trace},
       books.round());
  tell_where(node);
  if (const auto all = partitions.all(); !all.places.empty()) tell(node, all, books.round());
  if (moved.places.empty() || planted(Bug::holders_untold)) return;
  for (const auto& [other, told] : nodes)
    if (other != id) tell(told, moved, books.round());
}

void CoordinatorCore::on_beat(Node& node, const Beat& beat) {
  const uint64_t now = clock.now_ns();
  if (beat.echo_ns != 0 && beat.echo_ns <= now) node.round_trip_ms = static_cast<double>(now - beat.echo_ns) * 1e-6;
  if (beat.step != node.step) {
    if (node.step >= 0 && beat.step > node.step) {
      const double mean = static_cast<double>(now - node.stepped_ns) * 1e-9 / static_cast<double>(beat.step - node.step);
      node.step_s = node.step_s == 0 ? mean : 0.7 * node.step_s + 0.3 * mean;
      node.stepped = true;
    }
    node.step = beat.step;
    node.stepped_ns = now;
  }
  if (beat.evaluated != node.evaluated) {
    node.evaluated = beat.evaluated;
    node.stepped_ns = now;
  }
  if (const auto t = timelines.find(node.id); t != timelines.end() && beat.echo_ns != 0)
    t->second.moved |= t->second.clock.add(beat.echo_ns, beat.sent_ns, now);
  node.rate = beat.examples_per_s;
  node.bytes_up = beat.bytes_up;
  node.bytes_down = beat.bytes_down;
  node.waits_for = beat.waits_for;
  if (!node.waits_for.empty()) node.stepped_ns = now;  // it is another node's turn
  node.told_ns = now;
  tell(node, Beat{.sent_ns = now, .echo_ns = beat.sent_ns}, books.round());
}

void CoordinatorCore::on_failed(Node& node, const Failed& failed) {
  if (!failed.for_all) return lose(node.id, "worker_failed", failed.text);
  const std::string name = node.name;
  fail(Error(static_cast<ErrorKind>(std::clamp<uint16_t>(failed.kind, 2, 7)), {.where = "worker " + name, .what = failed.text}));
}

// The worker is gone: its work goes back, and the others go on without it.
void CoordinatorCore::lose(WorkerId id, const std::string& event_name, const std::string& cause, Return back) {
  const auto it = nodes.find(id);
  assert(it != nodes.end());
  Node node = std::move(it->second);
  const bool was_member = node.member;
  const int64_t given = examples_of(node.leased);
  if (was_member) rounds->on_losing(node);
  if (was_member && rounds->holds_results(node) && node.hash != 0) told_by_lost[{node.round, node.hash}].insert(id);
  take_back(node);
  peers.erase(node.peer);
  sender.forget(node.peer);
  if (options.example_service) options.example_service->on_lost(node.peer);
  transport.close(node.peer);
  nodes.erase(it);
  if (const auto t = timelines.find(id); t != timelines.end() && t->second.clock.known()) tell_spans(id);
  timelines.erase(id);
  std::erase(members, id);
  forget_image(id);
  control.pace.forget(id);
  if (back != Return::never && !node.dead)
    away[node.name] = {.since_ns = clock.now_ns(), .pid = node.pid, .lives = back == Return::some_time};
  while (away.size() > kMaxWorkers) away.erase(away.begin());
  // One that waits for others may hold what they need, too: by its last membership, or by what it said when it joined.
  const bool holds = was_member || (!planted(Bug::waiting_forgotten) && (node.left_waiting || node.hash != 0));
  if (holds && !node.dead) gone[id] = {.name = node.name, .pid = node.pid, .round = std::max(open, node.round)};
  while (gone.size() > kMaxWorkers) gone.erase(gone.begin());
  std::string done = given > 0 ? std::to_string(given) + " examples go back to be done by others; " : "";
  done += was_member ? std::to_string(members.size()) + " workers go on" : "it was not taking part";
  event(event_name.c_str(), &node, cause, done);
  if (was_member && (phase == Phase::forming || phase == Phase::running)) form();
}

// Its agent saw the process end: what it held is lost. It need not be lost here yet: its connection says so in a moment, behind its last
// words. Another process may have the name by now.
void CoordinatorCore::note_death(const std::string& name, uint32_t pid) {
  if (pid == 0 || planted(Bug::dead_awaited)) return;
  const auto is = [&](const auto& process) { return process.name == name && (process.pid == pid || planted(Bug::any_life_dead)); };
  for (auto& [id, node] : nodes) node.dead |= is(node);
  std::erase_if(gone, [&](const auto& lost) { return is(lost.second); });
  std::erase_if(untold, [&](const auto& worker) { return is(worker.second); });
  if (const auto found = away.find(name); found != away.end() && found->second.pid == pid) away.erase(found);
}

// A worker that was lost, with something that no image has. A coordinator that takes over does not know which there were.
bool CoordinatorCore::any_may_live() const {
  return options.takes_over ||
         std::any_of(gone.begin(), gone.end(), [&](const auto& lost) { return lost.second.round > options.resume_round; });
}

void CoordinatorCore::evict(WorkerId id, Eviction what, const std::string& cause) {
  const Node& node = nodes.at(id);
  const bool again = what == Eviction::to_join_again, stuck = what == Eviction::stuck;
  if (stuck && !node.stepped) first_step = std::min(2 * first_step, kMostFirstStep);
  transport.send(node.peer, encode(Refuse{.kind = 5, .retry = again, .what = cause}, header(-1)));
  if (!again) sent_off[id] = {node.address, cause};
  if (sent_off.size() > kMaxWorkers) sent_off.erase(sent_off.begin());
  // One that keeps others waiting and says nothing may be cut off, and does not hear that it was sent away.
  const Return back = again || (stuck && is_quiet(node)) ? Return::some_time : what == Eviction::for_good ? Return::soon : Return::never;
  lose(id, stuck ? "worker_stuck" : what == Eviction::kicked ? "worker_kicked" : "worker_lost", cause, back);
}

bool CoordinatorCore::is_quiet(const Node& node) const {
  const uint64_t now = clock.now_ns();
  return now > node.heard_ns && now - node.heard_ns > beat_late_ns();
}

// A worker with much to send answers late: it must not take this side for dead because it is slow itself.
void CoordinatorCore::beat_unasked(uint64_t now) {
  for (auto& [id, node] : nodes)
    if (now - node.told_ns > beat_late_ns()) node.told_ns = now, tell(node, Beat{.sent_ns = now}, books.round());
}

void CoordinatorCore::check_silence(uint64_t now) {
  if (planted(Bug::silence_ignored)) return;
  std::vector<WorkerId> silent;
  for (const auto& [id, node] : nodes)
    if (now > node.heard_ns && now - node.heard_ns > ns(options.silent_ms)) silent.push_back(id);
  for (const WorkerId id : silent) {
    if (phase == Phase::stopped || !nodes.contains(id)) continue;
    evict(id, Eviction::to_join_again, "silent for " + std::to_string((now - nodes.at(id).heard_ns) / 1'000'000) + " ms");
  }
}

double CoordinatorCore::median_step_s() const {
  std::vector<double> steps;
  for (const WorkerId id : members)
    if (nodes.at(id).step_s > 0) steps.push_back(nodes.at(id).step_s);
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return steps.empty() ? 0 : *middle;
}

// The first step tunes and compiles. One that takes longer than the policy expects looks like a hang, and would each time that it is begun
// again: the next worker has more time for it, unless it keeps others waiting.
double CoordinatorCore::first_step_ms() const {
  return options.policy.deadline_ms * (planted(Bug::first_step_not_learned) ? 1 : first_step);
}

// A worker that beats but does not step.
void CoordinatorCore::check_progress(uint64_t now) {
  if (start_held || border || finished || planted(Bug::stuck_ignored)) return;
  const double median_s = median_step_s();
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (node.state != Node::State::training || !node.waits_for.empty() || now < node.stepped_ns) continue;
    const double still_s = static_cast<double>(now - node.stepped_ns) * 1e-9;
    const double least_s = (node.stepped ? 2 * options.silent_ms : first_step_ms()) * 1e-3;
    if (still_s <= std::max(least_s, static_cast<double>(options.stuck_steps) * median_s)) continue;
    evict(
        id, Eviction::stuck,
        "no step for " + std::to_string(static_cast<int64_t>(still_s * 1e3)) + " ms; " +
            (median_s > 0 ? "the median step takes " + std::to_string(static_cast<int64_t>(median_s * 1e3)) + " ms"
                          : "no step is known, and the policy's 'deadline_ms' allows no more; the next first step may take twice as long"));
    return;
  }
}

// A node that waits in an exchange names its neighbour, which may itself wait for another: at the end of the chain is one that computes.
WorkerId CoordinatorCore::keeps_others_waiting(uint64_t now) const {
  if (planted(Bug::stuck_ignored)) return 0;
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (node.state == Node::State::training && node.waits_for.empty() && now > node.stepped_ns &&
        now - node.stepped_ns >= ns(0.9 * options.policy.deadline_ms))
      return id;
  }
  return 0;
}

size_t CoordinatorCore::trainers() const {
  return static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](WorkerId id) { return !nodes.at(id).server; }));
}

WorkerId CoordinatorCore::server() const {
  for (const WorkerId id : members)
    if (nodes.at(id).server) return id;
  return 0;
}

void CoordinatorCore::take_back(Node& node) {
  if (!planted(Bug::lost_leases))
    for (const Range& range : node.leased) books.pool().put_back(range);
  node.leased.clear();
  node.lease_last = false;
  node.lease_steps = 0;
  node.ready.reset();
}

// It holds the right result, but its local work is of no use any more.
void CoordinatorCore::drop_local_work(Node& node) {
  take_back(node);
  node.state = Node::State::healing;
  node.heal_ns = clock.now_ns();
  tell(node, CatchUp{.donor = node.id, .round = node.round, .hash = node.hash}, node.round);
}

}  // namespace perigee
