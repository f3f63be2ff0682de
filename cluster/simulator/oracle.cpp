// Invariants under all faults: the checks of World.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "cluster/policy/policy.h"
#include "cluster/simulator/world.h"
#include "cluster/simulator/world_impl.h"

namespace perigee::sim {

namespace {
constexpr double kEndsMs = 5000;      // after a coordinator's start every worker has found it
constexpr double kHearsMs = 1000;     // who can be reached from then on, after the end of the run, hears of it
constexpr double kMournsMs = 3000;    // after the last sign of a fault no link ends any more because of it
constexpr double kRestoresMs = 2000;  // from a new server's start to the first round, besides what a round takes
}  // namespace

void World::fail(const std::string& what) {
  say("FAILURE: " + what);
  if (outcome_.failure.empty()) outcome_.failure = what;
}

// The content of the parameters after `up_to_round`, if the ledger is right.
Contents World::contents_of_ledger(int64_t up_to_round, LedgerAudit* audit) const {
  std::span<const std::byte> bytes = disk_.bytes();
  size_t read = 0;
  const std::vector<LedgerRecord> records = decode_records(bytes, &read);
  Contents contents(scenario_.examples);
  int64_t limit = up_to_round;
  for (size_t i = records.size(); i-- > 0;) {
    const LedgerRecord& record = records[i];
    if (record.kind == LedgerRecord::Kind::voided) limit = std::min(limit, record.round);
    if (record.kind != LedgerRecord::Kind::round || record.round > limit) continue;
    for (const Share& share : record.shares)
      for (const Range& range : share.ranges) contents.add(range, scenario_.examples);
  }
  if (audit) *audit = perigee::audit(records);
  return contents;
}

// I2: a round is committed when all who take part have applied it. I3: all that hold it in this generation hold the same parameters.
void World::check_commit(int64_t round, int participants) {
  if (applied_[{told_generation_, round}] < (served() ? 1 : participants))
    fail("round " + std::to_string(round) + " was committed before all who take part had applied it");
  if (const std::string wrong = inner_.check(told_generation_, round); !wrong.empty()) fail(wrong);
  const Contents* first = nullptr;
  std::string holder;
  for (const auto& node : workers_) {
    if (!node->worker || !node->replica->holds_result() || node->replica->round() != round) continue;  // served: also who pulled it
    if (node->worker->generation() != told_generation_) continue;
    if (first && !(*first == node->replica->contents()))
      fail("after round " + std::to_string(round) + " " + holder + " and " + node->name + " hold different parameters");
    first = &node->replica->contents();
    holder = node->name;
    goes_on_wrongly_ |= applies_wrongly() && is_wrong(*first);  // check_mismatch() has judged that
  }
}

// All that apply a round in a generation use the same options: else replicas would not stay equal.
void World::check_options(const WorkerNode& node, int64_t round) {
  const auto [first, fresh] = set_options_.emplace(std::pair{node.worker->generation(), round}, node.replica->options_set());
  if (first->second != node.replica->options_set())
    fail("round " + std::to_string(round) + " is applied with the options '" + node.replica->options_set() + "' by " + node.name +
         " and '" + first->second + "' by another");
}

// A server merges a contribution once, and only if it started from a result that is not too old.
void World::check_merged(int64_t round, const std::vector<Arrival>& merged) {
  const Policy policy = read_policy(&scenario_.averaging, "scenario");
  for (const Arrival& arrival : merged) {
    for (const Range& range : arrival.push.ranges)
      if (!merged_.emplace(range.epoch, range.begin).second)
        fail("round " + std::to_string(round) + " merges what was merged before: " + std::to_string(range.count) + " examples of epoch " +
             std::to_string(range.epoch) + " from " + std::to_string(range.begin) + " on, of worker " + std::to_string(arrival.from));
    if (!policy.elastic && round - 1 - arrival.push.base > policy.max_staleness)
      fail("round " + std::to_string(round) + " merges what was made of round " + std::to_string(arrival.push.base) + ", more than " +
           std::to_string(policy.max_staleness) + " before the last");
  }
}

// No node is blamed that had no fault. The cause may name the other end of a link.
void World::check_blame(const std::string& worker, const std::string& cause) {
  if (!scenario_.touches_only_its_target()) return;
  for (const auto& [name, until] : struck_)
    if ((name == worker || cause.find(name) != std::string::npos) && network_.now_ns() <= until) return;
  fail(worker + " is blamed although nothing befell it: " + cause);
}

// Replicas differ only where one came out wrong, whatever bits a sum has by the number of those who made it.
void World::check_mismatch(const std::string& worker) {
  if (!applies_wrongly()) return fail(worker + " is said to hold wrong parameters although every replica computes what it should");
  for (const auto& node : workers_)
    if (node->name == worker && node->replica)
      if (const std::string wrong = results_.told_to_load(node->replica->round(), node->replica->contents().hash()); !wrong.empty())
        fail(worker + " is said to hold wrong parameters: " + wrong);
}

bool World::applies_wrongly() const {
  return std::ranges::any_of(scenario_.faults, [](const Fault& f) { return f.kind == Fault::Kind::wrong_apply; });
}

bool World::is_wrong(const Contents& contents) { return contents.sums[0] != std::floor(contents.sums[0]); }

// The coordinator hears what a worker says that it holds.
void World::hear(int from, std::span<const std::byte> frame) {
  FrameHeader h;
  if (!coordinator_ || !read_header(frame, &h) || h.generation != coordinator_->generation()) return;
  const std::span<const std::byte> payload = frame.subspan(kHeaderBytes);
  Done done;
  Acknowledge formed;
  for (const auto& node : workers_) {
    if (node->process != from) continue;
    if (h.type == MessageType::done && decode(payload, &done)) results_.heard(node->number, node->life, h.round, done.hash);
    if (h.type == MessageType::acknowledge && decode(payload, &formed)) results_.heard(node->number, node->life, formed.round, formed.hash);
  }
}

Contents World::without_fault(Contents found) const {
  if (goes_on_wrongly_ && is_wrong(found)) found.sums[0] = std::floor(found.sums[0]);
  return found;
}

// No link ends between workers that nothing befell.
void World::check_link(const std::string& worker, const std::string& cause) {
  const bool of_link = cause.find(": connection ") != std::string::npos || cause.starts_with("no link between");
  if (!of_link || scenario_.network.loss > 0 || network_.now_ns() < disturbed_until_ns_) return;
  for (const auto& [name, until] : struck_)
    if ((name == worker || cause.find(name) != std::string::npos) && network_.now_ns() <= until + ns(kMournsMs)) return;
  fail("a link of " + worker + " ends although nothing befell it: " + cause);
}

// A server that is started anew makes what is committed again, and goes on.
void World::check_restored() {
  const uint64_t since = std::exchange(server_ns_, 0);
  if (since == 0 || !scenario_.only_servers_die()) return;
  const LinkQuality& q = scenario_.network;
  const double round_ms = scenario_.example_ms * static_cast<double>(std::max(scenario_.batch, scenario_.global_batch)) * 16;
  const double limit_ms = kRestoresMs + 40 * (q.latency_ms + q.jitter_ms) + round_ms,
               passed_ms = static_cast<double>(network_.now_ns() - since) * 1e-6;
  if (passed_ms > limit_ms) fail("no round for " + std::to_string(static_cast<int64_t>(passed_ms)) + " ms after a new server was started");
}

// The truth is in the replicas: what a worker that can be heard holds is not given up.
void World::check_voided(int64_t left) {
  if (scenario_.only_servers_die())
    fail("rounds above " + std::to_string(left) + " are lost with their server, though workers kept all that was pushed");
  if (network_.now_ns() < disturbed_until_ns_ || scenario_.network.loss > 0) return;
  for (const auto& node : workers_)
    if (node->worker && node->wanted && (node->server || !served()) && !network_.paused(node->process) && node->replica->holds_result() &&
        node->replica->round() > left)
      fail("rounds above " + std::to_string(left) + " were given up although " + node->name + " holds round " +
           std::to_string(node->replica->round()));
}

// A worker that has said nothing for two seconds takes part in nothing. The coordinator must not have stood still itself meanwhile.
void World::check_silence() {
  looked_ns_ = network_.now_ns();
  if (!coordinator_ || network_.paused(coordinator_process_)) stood_still_ns_ = looked_ns_;
  if (stood_still_ns_ != 0 && looked_ns_ - stood_still_ns_ < ns(1000)) return;
  for (const WorkerView& view : coordinator_->workers())
    if (view.silent_ms > 2000)
      fail(view.name + " still takes part after it has been silent for " + std::to_string(static_cast<int64_t>(view.silent_ms)) + " ms");
}

void World::check_contents(const std::string& whose, const Contents& found, const Contents& expected) {
  const auto size = static_cast<size_t>(scenario_.examples);
  const std::vector<float> sums = without_fault(found).sums;
  for (size_t at = 0; at < size; ++at)
    if (sums[at] != expected.sums[at] || found.sums[size + at] != expected.sums[size + at])
      return fail(whose + " is not what the ledger says: position " + std::to_string(at) + " was applied " +
                  std::to_string(found.sums[at]) + " times, the ledger says " + std::to_string(expected.sums[at]));
  if (found.maxima[0] != expected.maxima[0]) fail(whose + ": a wrong maximum");
  check_fragments(whose, found);
}

// A fragment lags behind, and lacks what a lost worker did of it; but nothing is in it that is not counted, or more often. At the end of a
// run in which nothing was lost it has everything.
void World::check_fragments(const std::string& whose, const Contents& found) {
  static constexpr const char* kLosses[] = {"worker_lost",   "worker_stuck",  "link_lost",
                                            "too_stale",     "quarantined",   "skipped",
                                            "rounds_voided", "hash_mismatch", "coordinator_recovered"};
  const bool whole = scenario_.faults.empty() &&
                     std::none_of(std::begin(kLosses), std::end(kLosses), [&](const char* site) { return outcome_.sites.contains(site); });
  for (size_t f = 0; f < found.fragments.size(); ++f)
    for (size_t at = 0; at < found.sums.size(); ++at) {
      const float in_fragment = found.fragments[f][at], counted = found.sums[at];
      if (in_fragment < 0 || in_fragment > counted || (whole && in_fragment != counted))
        return fail(whose + ": fragment " + std::to_string(f) + " is made of " + std::to_string(in_fragment) + " at " + std::to_string(at) +
                    ", counted are " + std::to_string(counted));
    }
}

// A lane is read from its beginning to its end, by one worker in a round; but for examples that are tried again elsewhere.
void World::check_streams() {
  const auto breaks = [](const Fault& f) {
    return f.kind == Fault::Kind::not_finite || f.kind == Fault::Kind::outlying || f.kind == Fault::Kind::poison;
  };
  if (scenario_.streams == 0 || std::ranges::any_of(scenario_.faults, breaks)) return;
  size_t read = 0;
  const std::vector<LedgerRecord> records = decode_records(disk_.bytes(), &read);
  std::vector<const LedgerRecord*> rounds;  // that count, the last one first
  int64_t limit = INT64_MAX;
  for (size_t i = records.size(); i-- > 0;) {
    const LedgerRecord& record = records[i];
    if (record.kind == LedgerRecord::Kind::voided) limit = std::min(limit, record.round);
    if (record.kind == LedgerRecord::Kind::round && record.round <= limit) rounds.push_back(&record);
  }
  const int64_t lanes = scenario_.streams / scenario_.shards, steps = scenario_.examples / scenario_.streams;
  std::vector<int64_t> read_to(static_cast<size_t>(scenario_.shards), 0);  // steps of each shard, through all epochs
  for (size_t i = rounds.size(); i-- > 0;) {
    const LedgerRecord* const record = rounds[i];
    std::map<int64_t, std::pair<WorkerId, std::set<int64_t>>> now;
    for (const Share& share : record->shares)
      for (const Range& range : share.ranges)
        for (int64_t at = range.begin; at < range.begin + range.count; ++at) {
          const int64_t shard = at % scenario_.streams / lanes;
          const auto [found, fresh] = now.try_emplace(shard, share.id, std::set<int64_t>());
          if (found->second.first != share.id)
            return fail("in round " + std::to_string(record->round) + " two workers read the streams of shard " + std::to_string(shard));
          found->second.second.insert(static_cast<int64_t>(range.epoch) * steps + at / scenario_.streams);
        }
    for (const auto& [shard, of] : now)
      for (const int64_t step : of.second)
        if (std::exchange(read_to[static_cast<size_t>(shard)], step + 1) != step)
          return fail("in round " + std::to_string(record->round) + " shard " + std::to_string(shard) + " is read at step " +
                      std::to_string(step) + " out of its order");
  }
}

void World::check_end() {
  if (gave_up_) return;
  check_streams();
  LedgerAudit& found = outcome_.audit;
  int64_t round = -1;
  Contents result(scenario_.examples);
  if (!result_.image) return fail("the run ended without a result");
  if (!FakeReplica::read_image(*result_.image, &round, &result)) return fail("the run's result cannot be read");
  const Contents expected = contents_of_ledger(INT64_MAX, &found);
  // I1, by the ledger ...
  if (!found.sound()) fail("the ledger is not sound: " + found.to_json().dump());
  if (found.counted + found.skipped != scenario_.planned)
    fail("counted " + std::to_string(found.counted) + " and skipped " + std::to_string(found.skipped) + " of " +
         std::to_string(scenario_.planned));
  const int64_t poisoned = poison_.count > 0 ? scenario_.batch * 4 + scenario_.global_batch : 0;
  bool may_skip = poisoned > 0;
  for (const Fault& fault : scenario_.faults) may_skip |= fault.kind == Fault::Kind::not_finite || fault.kind == Fault::Kind::outlying;
  if (found.skipped > 0 && !may_skip) fail(std::to_string(found.skipped) + " examples were skipped though all can be computed");
  // ... and by the parameters: those that the launcher was given, and those of every worker that was there to the end. Who was cut off
  // before may hold an unknown result; it is of an older generation.
  check_contents("the run's result", result, expected);
  for (const auto& node : workers_)
    if (node->last && (node->server || !served()) && node->last_generation == last_generation_ && node->last_round >= round)
      check_contents(node->name, *node->last, expected);
  // Bounded queues, nothing left behind.
  if (network_.peak_queue_bytes() > 4 * scenario_.queue_bytes + (size_t{4} << 20))
    fail("a queue held " + std::to_string(network_.peak_queue_bytes()) + " bytes");
  if (const size_t open = network_.open_connections(coordinator_process_))
    fail("the coordinator left " + std::to_string(open) + " connections open");
  if (const size_t timers = network_.running_timers(coordinator_process_))
    fail("the coordinator left " + std::to_string(timers) + " timers running");
}

// A worker that had joined, and that nothing keeps from being told, does not wait for a coordinator that is gone: not one that was cut off
// when the run ended, either, as long as the launcher is there when it can be reached again.
void World::check_all_have_ended() {
  const bool reachable = cut_off_until_ns_ <= stopped_ns_ + ns(kHearsMs);
  if (gave_up_ || scenario_.network.loss > 0 || !reachable || stopped_ns_ < coordinator_started_ns_ + ns(kEndsMs)) return;
  // A worker that stood still, or was cut off, from before it could find the last coordinator until the end is unknown to it.
  const auto unknown = [this](const WorkerNode& node) {
    if (node.known_to != coordinator_starts_ && node.cut_off_until_ns + ns(kEndsMs) > stopped_ns_) return true;
    return node.paused_ns < coordinator_started_ns_ + ns(kEndsMs) && node.resumed_ns > stopped_ns_;
  };
  for (const auto& node : workers_)
    if (node->worker && node->joined && node->wanted && !network_.paused(node->process) && !unknown(*node))
      fail(node->name + " still runs although the run ended " + std::to_string((network_.now_ns() - stopped_ns_) / 1'000'000) + " ms ago");
}

std::string World::picture() const {
  std::string text = coordinator_ ? "coordinator " + coordinator_->status().dump() : "no coordinator";
  for (const auto& node : workers_)
    text += "\n    " + node->name +
            (node->worker     ? (network_.paused(node->process) ? " paused " : " ") + node->worker->status().dump()
             : node->finished ? " finished"
                              : " dead");
  return text;
}

}  // namespace perigee::sim
