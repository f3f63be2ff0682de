// The launcher of the simulated cluster: what it does when the coordinator tells it something, and how it ends.
#include <algorithm>
#include <utility>

#include "cluster/simulator/world.h"
#include "cluster/simulator/world_impl.h"
#include "src/core/error.h"

namespace perigee::sim {

void World::at_coordinator(double ms, std::function<void(Coordinator&)> what) {
  network_.post(coordinator_process_, ns(ms), [this, what = std::move(what)] { what(*coordinator_); });
}

void World::on_round(int64_t round, uint64_t generation, int64_t, int workers, const Figures&, int64_t) {
  if (told_round_ >= 0 && round <= told_round_ && generation == told_generation_)
    fail("round " + std::to_string(round) + " was committed twice in a generation");
  if (generation < told_generation_)
    fail("a round of generation " + std::to_string(generation) + " was committed after one of " + std::to_string(told_generation_));
  told_round_ = round;
  told_generation_ = generation;
  const uint64_t before = std::exchange(round_ns_, network_.now_ns());
  if (before != 0) outcome_.longest_pause_ms = std::max(outcome_.longest_pause_ms, static_cast<double>(round_ns_ - before) * 1e-6);
  check_commit(round, workers);
  check_restored();
  if (scenario_.checkpoint_every > 0 && round % scenario_.checkpoint_every == scenario_.checkpoint_every - 1)
    at_coordinator(0, [](Coordinator& c) { c.request_image("checkpoint"); });
}

void World::on_epoch(uint64_t) {
  reached("epoch");
  at_border_ = true;
  at_coordinator(scenario_.evaluates ? 0.1 : rng_.between(0.1, 20), [this](Coordinator& c) {
    if (!at_border_) return;
    if (scenario_.evaluates) return c.request_evaluation("test", scenario_.examples);
    at_border_ = false;
    c.release();
  });
}

void World::on_evaluated(const std::string&, const std::vector<std::string>& states) {
  reached("evaluated");
  std::vector<std::pair<int64_t, int64_t>> slices;
  for (const std::string& state : states) {
    const Json json = Json::parse(state, "state");
    slices.emplace_back(json.find("begin")->as_int(), json.find("end")->as_int());
  }
  std::sort(slices.begin(), slices.end());
  int64_t next = 0;
  for (const auto& [begin, end] : slices) {
    if (begin != next) fail("an evaluation's slices do not cover the data once");
    next = end;
  }
  if (next != scenario_.examples) fail("an evaluation ends at example " + std::to_string(next));
  if (finished_) return keep_result();
  at_coordinator(0.1, [this](Coordinator& c) {
    if (std::exchange(at_border_, false)) c.release();
  });
}

void World::on_image(uint64_t request, int64_t round, std::vector<std::byte> image) {
  const bool is_result = result_request_ != 0 && request == result_request_;
  if (image.empty()) {
    reached("image_failed");
    if (is_result) keep_result();
    return;
  }
  reached("image");
  int64_t found = -1;
  Contents contents(scenario_.examples);
  if (!FakeReplica::read_image(image, &found, &contents)) return fail("the checkpoint's image cannot be read");
  if (found != round) return fail("an image of round " + std::to_string(found) + " is said to be of round " + std::to_string(round));
  if (without_fault(contents).sums != contents_of_ledger(round).sums)
    return fail("the image of round " + std::to_string(round) + " is not made of what the ledger says");
  const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(image));
  if (is_result) {
    result_ = {round, bytes};
    return stop_run();
  }
  checkpoint_ = {round, bytes};
  at_coordinator(0, [this](Coordinator& c) { c.set_resume(checkpoint_.round, checkpoint_.image); });
}

void World::on_event(const Json& event) {
  const std::string kind = event.find("event")->as_string();
  reached(kind);
  // In an exchange who waits names its neighbour, which may itself wait for a host that fell silent.
  const bool silent_host =
      std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [](const Fault& f) { return f.kind == Fault::Kind::worker_power; });
  if (kind == "worker_lost" || kind == "worker_stuck" || (kind == "link_lost" && !silent_host))
    check_blame(event.find("worker")->as_string(), event.find("cause")->as_string());
  if (kind == "worker_lost" || kind == "link_lost") check_link(event.find("worker")->as_string(), event.find("cause")->as_string());
  if (kind == "hash_mismatch") check_mismatch(event.find("worker")->as_string());
  if (kind == "rounds_voided") check_voided(event.find("round")->as_int());
  if (options_.trace) say("coordinator says " + event.dump());
}

void World::on_finished(int64_t) {
  finished_ = true;
  reached("finished");
  const bool evaluates = scenario_.evaluates && rng_.chance(0.5);
  at_coordinator(0.1, [this, evaluates](Coordinator& c) {
    if (!finished_) return;
    if (evaluates) c.request_evaluation("test", scenario_.examples);
    else keep_result();
  });
}

void World::on_reopened() {
  reached("reopened");
  say("what was complete is void");
  if (!at_border_ && !finished_) fail("something is taken back that was not said");
  at_border_ = finished_ = false;
  result_request_ = 0;
}

// The run is over when the launcher has a worker's parameters of the last round.
void World::keep_result() {
  at_coordinator(0.1, [this](Coordinator& c) {
    if (!finished_) return;
    result_request_ = c.request_image("model");
    if (result_request_ == 0) network_.at(in(200), [this] { keep_result(); });
  });
}

void World::stop_run() {
  at_coordinator(0.1, [this](Coordinator& c) {
    if (stopped_) return;
    say("the run is over");
    stopped_ = true;
    if (operator_) operator_->stop();
    stopped_ns_ = network_.now_ns();
    last_generation_ = c.generation();
    c.stop("finished", true);
  });
}

void World::on_failed(const Error& error) {
  for (const Fault& fault : scenario_.faults) gave_up_ |= error.kind() == ErrorKind::model && fault.kind == Fault::Kind::not_finite;
  if (!gave_up_) return fail(std::string("the coordinator failed: ") + error.what());
  reached("gave_up");
  stopped_ = true;
  if (operator_) operator_->stop();
  stopped_ns_ = network_.now_ns();
}

// As the real one: once no worker is connected any more, and none is expected, it ends, and can be reached no more.
void World::end_launcher() {
  if (!stopped_ || launcher_gone_ || !coordinator_ || network_.paused(coordinator_process_)) return;
  const bool quiet = network_.open_connections(coordinator_process_) == 0 && coordinator_->expected_back().empty();
  if (!quiet && network_.now_ns() < stopped_ns_ + ns(kEndMs)) return;
  launcher_gone_ = true;
  network_.unlisten(coordinator_process_);
}

}  // namespace perigee::sim
