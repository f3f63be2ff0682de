#include <algorithm>
#include <cassert>
#include <optional>

#include "cluster/membership/coordinator_core.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr size_t kMaxQueued = 64;  // evaluations, images
constexpr int kMaxTries = 4;
constexpr uint64_t kLedgerNs = 2'000'000'000;  // so long an image waits for a ledger that cannot be written

}  // namespace

// After a commit, or when a generation has formed: is an epoch or the run complete?
bool CoordinatorCore::enter_border() {
  assert(phase == Phase::running);
  if (border || finished) return true;
  if (const auto epoch = books.epoch_due()) {
    border = *epoch;
    border_ns = clock.now_ns();
    events.on_epoch(*epoch);
    return true;
  }
  if (run_complete()) {
    finished = true;
    tell_finished();
    return true;
  }
  return false;
}

bool CoordinatorCore::run_complete() const {
  return books.all_done() || (options.max_rounds > 0 && books.round() >= options.max_rounds - 1);
}

// Everybody who held the last rounds is gone, and with them what was complete: the launcher hears of it, and later that it is complete again.
void CoordinatorCore::reopen_border() {
  failures.clear();
  bool told = false;
  if (border && !books.pool().epoch_done(*border)) border.reset(), told = true;
  if (finished && !run_complete()) {
    told |= finish_told;
    finished = finish_told = false;
  }
  if (!told) return;
  evaluations.clear();
  slices.clear();
  events.on_reopened();
}

// The run is over when the ledger that proves it is on disk; while that cannot be written, each tick tries again.
void CoordinatorCore::tell_finished() {
  if (!finished || finish_told || phase == Phase::stopped || (!books.sync(clock.now_ns(), 0) && !planted(Bug::finished_unsynced))) return;
  finish_told = true;
  events.on_finished(books.round());
}

void CoordinatorCore::release() {
  if (!border || phase == Phase::stopped) return;
  books.epoch_evaluated(generation, *border);
  if (options.trace) tell_evaluated();
  border.reset();
  evaluations.clear();
  slices.clear();
  if (phase != Phase::running) return;  // enter_border() comes when the generation has formed
  if (enter_border()) return;
  if (form_wanted && !joining_timer) return form();
  if (start_held) return send_start();
  tell_all(Evaluate{}, books.round());
  for (const WorkerId id : members) nodes.at(id).stepped_ns = clock.now_ns();
  rounds->replay_early();
  if (start_allowed()) rounds->advance();
}

void CoordinatorCore::request_evaluation(const std::string& part, int64_t examples, bool whole) {
  if (phase == Phase::stopped || evaluations.size() >= kMaxQueued) return;
  assert(!part.empty() && examples >= 0);
  evaluations.push_back({part, examples, whole});
  if (evaluations.size() == 1 && phase == Phase::running) issue_evaluation();
}

// Each worker evaluates a slice of the part, or one of them the whole of it.
void CoordinatorCore::issue_evaluation() {
  slices.clear();
  if (evaluations.empty()) return;
  const Evaluation& e = evaluations.front();
  std::vector<WorkerId> able;
  for (const WorkerId id : members)
    if (rounds->holds_results(nodes.at(id))) able.push_back(id);
  const auto count = std::min<int64_t>(static_cast<int64_t>(able.size()), e.whole ? 1 : INT64_MAX);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = e.examples * i / count - (planted(Bug::evaluation_overlaps) && i > 0 ? 1 : 0), end = e.examples * (i + 1) / count;
    if (begin == end && !(i == 0 && e.examples == 0)) continue;
    Slice slice{.request = ++next_request,
                .worker = able[static_cast<size_t>(i)],
                .begin = begin,
                .end = end,
                .asked_ns = clock.now_ns(),
                .state = {}};
    tell(nodes.at(slice.worker), Evaluate{.request = slice.request, .part = e.part, .begin = begin, .end = end}, books.round());
    slices.push_back(std::move(slice));
  }
}

void CoordinatorCore::on_evaluated(Node& node, Evaluated evaluated) {
  const auto slice = std::find_if(slices.begin(), slices.end(), [&](const Slice& s) { return s.request == evaluated.request; });
  if (slice == slices.end() || slice->worker != node.id || slice->state) {
    ++dropped.stale;  // of a generation that is over
    return;
  }
  slice->state = std::move(evaluated.state);
  if (!std::all_of(slices.begin(), slices.end(), [](const Slice& s) { return s.state.has_value(); })) return;
  std::vector<std::string> states;
  for (Slice& s : slices) states.push_back(std::move(*s.state));
  const std::string part = evaluations.front().part;
  evaluations.pop_front();
  issue_evaluation();
  events.on_evaluated(part, states);
}

// A worker that beats but evaluates nothing. When it is replaced, its examples are asked of others. It counts only whole
// batches, larger ones than it trains with perhaps: it has at least the time that a round may wait for one.
void CoordinatorCore::check_evaluation(uint64_t now) {
  if (planted(Bug::stuck_ignored)) return;
  const double most_s = std::max(options.policy.deadline_ms * 1e-3, static_cast<double>(options.stuck_steps) * median_step_s());
  for (const Slice& slice : slices) {
    const Node& node = nodes.at(slice.worker);
    const uint64_t since = std::max(slice.asked_ns, node.stepped_ns);
    if (slice.state || !node.waits_for.empty() || now < since) continue;
    const double still_s = static_cast<double>(now - since) * 1e-9;
    if (still_s <= most_s) continue;
    return evict(
        node.id, Eviction::stuck,
        "nothing of '" + evaluations.front().part + "' evaluated for " + std::to_string(static_cast<int64_t>(still_s * 1e3)) + " ms");
  }
}

// ---- images ----

uint64_t CoordinatorCore::request_image(const std::string& what) {
  if (images.size() >= kMaxQueued) return 0;
  const uint64_t request = ++next_request;
  images.push_back({.request = request, .what = what});
  ask_for_image();
  return request;
}

bool CoordinatorCore::keep_image() {
  const bool asked = std::any_of(images.begin(), images.end(), [](const ImageRequest& r) { return r.own; });
  if (asked || images.size() >= kMaxQueued) return false;
  images.push_back({.request = ++next_request, .what = "checkpoint", .own = true});
  ask_for_image();
  return true;
}

// A number of its own for each time that it is asked: pieces of an answer to an earlier one may still be on their way.
void CoordinatorCore::ask_for_image() {
  if (images.empty() || image_from != 0 || phase != Phase::running || members.empty()) return;
  std::vector<WorkerId> able;
  for (const WorkerId id : members)
    if (rounds->holds_results(nodes.at(id)) && nodes.at(id).state == Node::State::training && nodes.at(id).round >= books.round())
      able.push_back(id);
  if (able.empty()) return;
  const Node& node = nodes.at(able[image_turn++ % able.size()]);
  const uint64_t asked = ++next_request;
  image_from = node.id;
  image_asked_ns = image_ns = clock.now_ns();
  image_complete = false;
  receiver.expect(node.peer, asked);
  tell(node, Snapshot{.request = asked, .what = images.front().what}, books.round());
}

// The worker that was asked may be gone or silent, or its generation over.
void CoordinatorCore::check_images(uint64_t now) {
  if (image_from != 0 && !image_complete && now > image_ns && now - image_ns > ns(options.policy.deadline_ms)) image_failed();
  if (!planted(Bug::image_request_lost)) ask_for_image();
  deliver_image();
}

void CoordinatorCore::on_image(Node& node, Image& image, std::span<const std::byte> body) {
  switch (receiver.on_image(node.peer, image, body)) {
    case ImageReceiver::Progress::unexpected: ++dropped.unexpected; return;
    case ImageReceiver::Progress::more: image_ns = clock.now_ns(); return;
    case ImageReceiver::Progress::failed: return image_failed();
    case ImageReceiver::Progress::complete: image_complete = true, image_ns = clock.now_ns(); return deliver_image();
  }
}

// Another worker is asked, but not for ever.
void CoordinatorCore::image_failed() {
  if (++images.front().failures >= kMaxTries) return give_up_image();
  forget_image(image_from);
  ask_for_image();
}

void CoordinatorCore::give_up_image() {
  assert(image_from != 0 && !images.empty());
  forget_image(image_from);
  const ImageRequest given_up = std::move(images.front());
  images.pop_front();
  if (given_up.own) rounds->on_imaged(0);
  else events.on_image(given_up.request, books.round(), {});
  ask_for_image();
}

// Only what is committed is worth keeping: a worker may be one round ahead. And no checkpoint may be ahead of the ledger on disk: after a
// power cut its origin would be unknown.
void CoordinatorCore::deliver_image() {
  if (image_from == 0 || !image_complete || (receiver.round() > books.round() && !planted(Bug::image_uncommitted))) return;
  if (!planted(Bug::image_ahead_of_ledger) && receiver.round() > books.synced() && !books.sync(clock.now_ns(), 0)) {
    if (clock.now_ns() - image_ns > kLedgerNs) give_up_image();  // who waits for it goes on without; until then each tick tries again
    return;
  }
  const std::optional<uint64_t> known = books.hash_of(receiver.round());
  if (known && *known != receiver.hash()) return image_failed();
  image_from = 0;
  image_complete = false;
  const uint64_t request = images.front().request;
  const bool own = images.front().own;
  images.pop_front();
  if (own) {
    options.resume_round = receiver.round();
    options.resume_image = std::make_shared<const std::vector<std::byte>>(std::move(receiver.bytes()));
    rounds->on_imaged(image_asked_ns);
    return ask_for_image();
  }
  delivered.push_back({receiver.round(), receiver.hash()});
  if (delivered.size() > kMaxQueued) delivered.pop_front();
  events.on_image(request, receiver.round(), std::move(receiver.bytes()));
  ask_for_image();
}

// While the launcher wrote it to its disk, the round may have become void, and another one of the same number been committed.
void CoordinatorCore::set_resume(int64_t round, SharedBytes image) {
  const auto given = std::find_if(delivered.rbegin(), delivered.rend(), [&](const Delivered& d) { return d.round == round; });
  const std::optional<uint64_t> known = books.hash_of(round);
  if (options.policy.served && round <= options.resume_round) return;  // a newer one is kept (keep_image)
  if (round > books.round() || (given != delivered.rend() && known && *known != given->hash)) return;
  options.resume_round = round;
  options.resume_image = std::move(image);
  send_checkpoint();
}

void CoordinatorCore::forget_image(WorkerId from) {
  if (image_from != from || from == 0) return;
  image_from = 0;
  image_complete = false;
  receiver.cancel();
}

}  // namespace perigee
