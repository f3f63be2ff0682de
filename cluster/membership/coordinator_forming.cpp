#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr uint64_t kRecoverNs = 3'000'000'000;  // how long one who takes over waits for the workers of the last round

// Which parts differ: as the worker has them, and as they should be. Without parts the two fingerprints.
std::pair<std::string, std::string> different_data(const Acknowledge& formed, uint64_t fingerprint,
                                                   const std::vector<DataPrint>& expected) {
  const auto text_of = [](const std::vector<DataPrint>& all, const std::vector<DataPrint>& others) {
    std::string text;
    for (const DataPrint& one : all) {
      const bool same =
          std::any_of(others.begin(), others.end(), [&](const DataPrint& o) { return o.part == one.part && o.hash == one.hash; });
      if (!same) text += (text.empty() ? "" : ", ") + one.part + " = " + one.describe + " " + hex_digest(one.hash);
    }
    return text.empty() ? "nothing else" : text;
  };
  if (formed.data.empty() || expected.empty())
    return {"fingerprint " + hex_digest(formed.fingerprint), "fingerprint " + hex_digest(fingerprint)};
  return {text_of(formed.data, expected), text_of(expected, formed.data)};
}

// The generation in which a worker's result was made; 0: its log does not say.
uint64_t made_in(const CoordinatedWorker& node) {
  for (const LogEntry& entry : node.log)
    if (entry.round == node.round) return entry.generation;
  return 0;
}

// Two results of one round may only differ if it was made again: who was away meanwhile holds one that counts no longer. The initial
// values follow from the seed, whenever they are made.
bool is_wrong_beside(const CoordinatedWorker& node, const CoordinatedWorker& best) {
  if (node.hash == 0 || node.round != best.round || node.hash == best.hash) return false;
  if (node.round < 0) return true;
  const uint64_t own = made_in(node), others = made_in(best);
  return own == others || own == 0 || others == 0;
}

}  // namespace

void CoordinatorCore::worker_is_open(Node& node, const Acknowledge& formed) {
  if (fingerprint == 0) fingerprint = formed.fingerprint, options.data = formed.data;
  if (formed.fingerprint != fingerprint) {
    const auto [got, expected] = different_data(formed, fingerprint, options.data);
    transport.send(node.peer,
                   encode(Refuse{.kind = 3,
                                 .what = "another data set",
                                 .got = got,
                                 .expected = expected,
                                 .hint = "every worker must read the same data; data.at = \"coordinator\" sends them the launcher's"},
                          header(-1)));
    return lose(node.id, "worker_refused", "another data set: it has " + got + "; expected " + expected);
  }
  if (node.state == Node::State::waiting) return;
  node.state = Node::State::waiting;
  gone.erase(node.id);
  if (first_join_ns == 0) first_join_ns = clock.now_ns();
  event("worker_joined", &node, "", "takes part from the next round on");
  request_form();
}

// Workers that come within a short while of each other join in one change.
void CoordinatorCore::request_form() {
  form_wanted = true;
  if (joining_timer) return;
  joining_timer = true;
  transport.start_timer(kJoin, clock.now_ns() + ns(options.join_wait_ms));
}

void CoordinatorCore::expect_workers(int count) {
  options.expected_workers = count;
  if (gathering() && first_join_ns != 0) form_if_calm();
}

bool CoordinatorCore::gathering() const { return phase == Phase::waiting && !formed_once && options.expected_workers > 0; }

// The workers of the last round, who know what the ledger may not, have come back; or they had time to.
bool CoordinatorCore::recovered() const {
  const auto& expected = books.last_members();
  const bool all_here = !expected.empty() && !options.policy.served && std::all_of(expected.begin(), expected.end(), [&](WorkerId id) {
    const auto it = nodes.find(id);
    return it != nodes.end() && it->second.state == Node::State::waiting;
  });
  const bool held = formed_once && std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) {
                      return rounds->holds_results(n.second) && n.second.state == Node::State::waiting && n.second.hash != 0 &&
                             n.second.round >= books.round();
                    });
  const bool restores = formed_once && !rounds->lacks_server() && rounds->restores();
  const bool any = !formed_once || any_may_live();
  if (!all_here && !held && !restores && any && clock.now_ns() - first_join_ns < kRecoverNs) return false;
  std::vector<WorkerId> here;
  for (const auto& [id, node] : nodes)
    if (node.state == Node::State::waiting) here.push_back(id);
  return could_claim(here);
}

// Before the first generation: the workers that are expected have come, or had time to.
bool CoordinatorCore::has_gathered() {
  const auto here =
      std::count_if(nodes.begin(), nodes.end(), [](const auto& n) { return n.second.state == Node::State::waiting && !n.second.server; });
  const bool all = here >= options.expected_workers;
  if (!all && clock.now_ns() - first_join_ns < ns(options.expect_ms)) return false;
  if (!all)
    event("workers_missing", nullptr,
          std::to_string(here) + " of " + std::to_string(options.expected_workers) + " workers joined within " +
              std::to_string(static_cast<int64_t>(options.expect_ms / 1000)) + " s",
          "training begins with those; the others may still join");
  options.expected_workers = 0;
  return true;
}

// At a moment at which no work is lost: between two rounds, or while no exchange is going on.
void CoordinatorCore::form_if_calm() {
  if (phase == Phase::recovering) {
    if (!recovered()) return;
    form_wanted = true;
  }
  if (!form_wanted || joining_timer) return;
  if (gathering() && !has_gathered()) return;
  const bool between = phase == Phase::running && (start_held || border || finished || rounds->calm());
  if (phase == Phase::recovering || phase == Phase::waiting || between) form();
}

// Those who stay keep their ranks; new ones come after them.
void CoordinatorCore::pick_members() {
  std::vector<WorkerId> old;
  old.swap(members);
  for (const WorkerId id : old)
    if (nodes.contains(id)) members.push_back(id);
  for (const auto& [id, node] : nodes)
    if (!node.member && node.state != Node::State::opening) members.push_back(id);
}

// False: there are too few workers, or not the right ones, and they wait.
bool CoordinatorCore::may_form() {
  const bool no_server = rounds->lacks_server();
  if (no_server || trainers() < static_cast<size_t>(options.min_workers)) {
    if (phase != Phase::waiting) {
      if (no_server) event("waiting", nullptr, "the server is lost", "workers keep what they have until it is back");
      else
        event("waiting", nullptr, "too few workers are left", "training goes on with " + std::to_string(options.min_workers) + " workers");
    }
    return disband(Phase::waiting), false;
  }
  // Those who are gone may be alive on the other side of a cut, where the standby is: only one side may go on.
  if (!could_claim(members)) return wait_for_votes(), false;
  // Fresh workers must not begin anew what those who were cut off a moment ago still hold.
  const bool held = std::any_of(members.begin(), members.end(), [&](WorkerId id) {
    const Node& node = nodes.at(id);
    return rounds->holds_results(node) && node.hash != 0 && node.round >= books.round();
  });
  if (held || rounds->restores() || !formed_once || books.round() < 0 || phase == Phase::recovering || !any_may_live()) return true;
  event("waiting", nullptr, "no worker that is left has the parameters of round " + std::to_string(books.round()),
        "waits a moment for one that has them");
  return disband(Phase::recovering), false;
}

void CoordinatorCore::form() {
  assert(phase != Phase::stopped);
  form_wanted = false;
  rounds->on_propose();
  pick_members();
  if (!may_form()) return;
  if (rotate > 0)
    std::rotate(members.begin(), members.begin() + static_cast<ptrdiff_t>(rotate % members.size()), members.end()), rotate = 0;
  formed_once = true;
  claiming = false;
  if (!planted(Bug::same_generation) || generation == 0) ++generation;
  phase = Phase::forming;
  forming_since_ns = clock.now_ns();
  formed_count = 0;
  start_held = false;
  transport.stop_timer(kGrace);
  if (image_from != 0) forget_image(image_from);

  // Records on disk let the workers forget; but not before it is known that the ledger is of their line.
  Propose message{.synced = options.takes_over ? -1 : safe_round(), .server = server()};
  for (const WorkerId id : members)
    if (!nodes.at(id).member) doubt_link(nodes.at(id));
  message.dead = told_dead = std::exchange(dead_links, {});
  for (const WorkerId id : members) {
    Node& node = nodes.at(id);
    take_back(node);
    node.stayed = std::exchange(node.left_waiting, false) || node.member;
    node.member = true;
    node.formed = false;
    node.heals = 0;
    node.early.reset();
    node.done.reset();
    node.state = Node::State::forming;
    message.members.push_back({.id = id, .name = node.name, .host = node.host, .address = node.address, .site = node.site});
  }
  tell_all(message, books.round());
}

// The workers wait until there are enough of them, or the right ones.
void CoordinatorCore::disband(Phase until) {
  assert(until == Phase::waiting || until == Phase::recovering);
  for (auto& [id, node] : nodes)
    if (node.state != Node::State::opening) {
      node.state = Node::State::waiting;
      node.left_waiting = std::exchange(node.member, false) || node.left_waiting;
    }
  members.clear();
  claiming = false;
  first_join_ns = clock.now_ns();
  phase = until;
}

void CoordinatorCore::on_acknowledge(Node& node, Acknowledge formed) {
  const auto possible = [&](const Range& r) { return books.possible(r); };
  bool sound = std::all_of(formed.pending.begin(), formed.pending.end(), possible) && formed.broken.size() <= kMaxWorkers;
  for (size_t i = 0; i < formed.log.size(); ++i) {
    const LogEntry& entry = formed.log[i];
    sound = sound && std::all_of(entry.ranges.begin(), entry.ranges.end(), possible) && (i == 0 || entry.round > formed.log[i - 1].round);
  }
  if (!sound) {
    ++dropped.malformed;
    return evict(node.id, Eviction::to_join_again, "it names examples that do not exist");
  }
  node.formed = true;
  node.round = formed.round;
  node.hash = formed.hash;
  node.pending = std::move(formed.pending);
  node.base = formed.base;
  node.log = std::move(formed.log);
  node.kept_from = formed.kept_from;
  node.made = std::move(formed.made);
  broken_groups.insert(formed.broken.begin(), formed.broken.end());
  if (++formed_count == members.size()) claim_lease();
}

// Results of the ledger's line, with the members that hold them and the lost ones that did. One that came again counts once.
CoordinatorCore::Holders CoordinatorCore::holders() const {
  const bool settled = books.hash() != 0 && !options.takes_over;
  Holders held = told_by_lost;
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (!rounds->holds_results(node) || node.hash == 0 || (settled && !books.on_line(node.round, node.hash, node.log))) continue;
    held[{node.round, node.hash}].insert(id);
  }
  return held;
}

// The newest result that most members hold; null: no worker holds one that is of the ledger's line.
const CoordinatedWorker* CoordinatorCore::best_held() const {
  const Node* best = nullptr;
  Holders held = holders();
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (!rounds->holds_results(node)) continue;
    const auto own = held.find({node.round, node.hash});
    if (own == held.end()) continue;
    if (!best || node.round > best->round || (node.round == best->round && own->second.size() > held[{best->round, best->hash}].size()))
      best = &node;
  }
  return best;
}

// Every member has said what it holds: which result do they go on from?
void CoordinatorCore::resolve() {
  assert(phase == Phase::forming);
  const Node* best = best_held();
  const bool has_image = options.resume_image != nullptr && options.resume_round >= 0;
  if (best && !(has_image && options.resume_round > best->round)) {
    target_round = best->round;
    target_hash = best->hash;
    for (const WorkerId id : members)
      if (const Node& node = nodes.at(id); rounds->holds_results(node) && is_wrong_beside(node, *best)) tell_mismatch(node, *best);
  } else {
    target_round = has_image ? options.resume_round : -1;
    target_hash = 0;
  }
  rounds->extend(&target_round, &target_hash);
  adopt(best);
  rounds->on_all_formed();
  broken_groups.clear();
  settle_pending();
  begin_healing();
}

void CoordinatorCore::tell_mismatch(const Node& node, const Node& best) {
  Holders held = holders();
  const auto votes = [&](uint64_t hash) { return held[{best.round, hash}].size(); };
  const std::string what = "its parameters after round " + std::to_string(node.round) + " differ from ";
  if (votes(node.hash) < votes(best.hash))
    return event("hash_mismatch", &node, what + "those of most workers", "it loads them from another worker");
  event("hash_mismatch", &node, what + best.name + "'s, and as many workers hold the ones as the others",
        "it loads those of " + best.name + ": which are right nobody can tell");
}

// The ledger becomes that of the result that they go on from.
void CoordinatorCore::adopt(const Node* best) {
  const int64_t known = books.round();
  const Books::Adopted adopted =
      books.adopt(generation, target_round, target_hash, best && target_hash ? best->log : std::vector<LogEntry>{});
  if (adopted.voided > 0) {
    follower.round = std::min(follower.round, books.round());
    control.guard.go_back(books.round());
    reopen_border();
  }
  if (options.takes_over || adopted.voided > 0 || adopted.missing > 0)
    event(adopted.voided > 0 ? "rounds_voided" : "coordinator_recovered", nullptr,
          "the ledger ends with round " + std::to_string(known) + ", the workers are at round " + std::to_string(target_round),
          std::to_string(adopted.completed) + " rounds are added to it from the workers' logs, " + std::to_string(adopted.voided) +
              " count no longer and are trained again, " + std::to_string(adopted.missing) + " are not known of");
  options.takes_over = false;  // from here on there is one line
}

void CoordinatorCore::check_forming(uint64_t now) {
  std::vector<WorkerId> late;
  for (const WorkerId id : members) {
    const Node& node = nodes.at(id);
    if (!node.formed && now > forming_since_ns && now - forming_since_ns > ns(options.policy.deadline_ms)) late.push_back(id);
  }
  for (const WorkerId id : late)
    if (phase != Phase::stopped && nodes.contains(id)) evict(id, Eviction::to_join_again, "no answer to the change of membership");
}

void CoordinatorCore::ready_to_go() {
  for (const WorkerId id : members) {
    [[maybe_unused]] const Node& node = nodes.at(id);
    assert(!rounds->holds_results(node) || (node.round == target_round && node.hash == target_hash));
  }
  assert(target_hash != 0 && books.round() == target_round);
  told_by_lost.clear();
  if (options.trace) tell_formed();
  phase = Phase::running;
  start_held = true;
  open = target_round + 1;
  if (!enter_border()) send_start();
  issue_evaluation();  // what was asked of the generation before is asked again
  if (form_wanted && !joining_timer) form_if_calm();
}

// Everybody holds the base: off they go.
void CoordinatorCore::send_start() {
  assert(phase == Phase::running && start_held);
  if (pauses()) return;
  start_held = false;
  rounds = &protocols.at(progress());
  // Ranges that wait for a worker that has not tried them yet: when there is none left, they start again.
  std::erase_if(failures, [&](const Failure& f) {
    const auto tried = [&](WorkerId id) { return std::find(f.by.begin(), f.by.end(), id) != f.by.end(); };
    if (!f.waiting || !std::all_of(members.begin(), members.end(), tried)) return false;
    books.pool().put_back(f.range);
    return true;
  });
  const auto workers = static_cast<int64_t>(trainers());
  const Range frontier = books.pool().frontier();
  StartEpoch message{.base = target_round,
                     .hash = target_hash,
                     .epoch = frontier.epoch,
                     .position = frontier.begin,
                     .examples = books.examples_done(),
                     .synchronous = rounds->synchronous(),
                     .per_epoch = options.examples,
                     .planned = options.planned,
                     .batch = local_batch(),
                     .global = options.global_batch > 0 ? options.global_batch : options.batch * workers,
                     .leaves = static_cast<int32_t>(options.policy.shards > 0 ? options.policy.shards : workers),
                     .last_round = options.max_rounds > 0 ? options.max_rounds - 1 : -1,
                     .settings = settings.as_object().empty() ? "" : settings.dump()};
  rounds->on_start_epoch(&message);
  tell_all(message, target_round + 1);
  const uint64_t now = clock.now_ns();
  for (const WorkerId id : members) nodes.at(id).stepped_ns = now;
  rounds->open_round();
  rounds->top_up_all();
}

}  // namespace perigee
