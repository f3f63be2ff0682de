#include "tests/cluster/protocol/scenario.h"

#include <cassert>

namespace perigee {
Scenario::Scenario(Setup given) : setup_(std::move(given)), network_(std::make_unique<sim::Network>(setup_.seed)) {
  if (setup_.own_coordinator) {
    coordinator_process_ = network_->add_process(0, kCoordinatorAddress);
    start_coordinator();
  }
  for (int i = 0; i < setup_.workers; ++i) add_worker();
}

Scenario::~Scenario() = default;

void Scenario::start_coordinator(bool takes_over, const std::string& steering) {
  Json job = Json::object();
  job.set("averaging", Json::parse(setup_.averaging, "test"));
  CoordinatorOptions options{.job_id = kJob,
                             .job = job.dump(),
                             .policy = read_policy(job.find("averaging"), "test"),
                             .examples = setup_.examples,
                             .planned = setup_.examples * setup_.epochs,
                             .max_rounds = setup_.max_rounds,
                             .batch = setup_.batch,
                             .shards = setup_.shards,
                             .steerable = setup_.steerable,
                             .min_workers = setup_.min_workers,
                             .expected_workers = setup_.expected_workers,
                             .standby = setup_.standby,
                             .takes_over = takes_over,
                             .is_standby = !steering.empty(),
                             .steering = steering};
  coordinator_ = std::make_unique<Coordinator>(options, network_->clock(coordinator_process_), network_->rng(coordinator_process_),
                                               network_->transport(coordinator_process_), disk_, *this);
  network_->boot(coordinator_process_, coordinator_.get());
  coordinator_->start();
}

void Scenario::kill_coordinator(bool power) {
  network_->kill(coordinator_process_, power);
  dead_coordinators_.push_back(std::move(coordinator_));  // its memory: nothing calls it any more
}

size_t Scenario::add_worker(uint64_t fingerprint) {
  auto node = std::make_unique<WorkerNode>();
  const size_t index = workers_.size();
  node->name = "host" + std::to_string(index + 1) + "/1";
  node->fingerprint = fingerprint;
  node->process = network_->add_process(static_cast<int>(index) + 1, "host" + std::to_string(index + 1) + ":1");
  workers_.push_back(std::move(node));
  boot_worker(*workers_.back());
  return index;
}

void Scenario::boot_worker(WorkerNode& node) {
  const int number = node.process;
  sim::FakeReplica::Options options{.examples = setup_.examples, .fingerprint = node.fingerprint, .example_ms = setup_.example_ms};
  options.poison = setup_.poison;
  options.steered = setup_.steerable;
  node.replica = std::make_unique<sim::FakeReplica>(
      options, *network_, number, node.faults, [this, &node](const std::string& what) { complaints_.push_back(node.name + ": " + what); });
  const std::string host = node.name.substr(0, node.name.find('/'));
  node.worker = std::make_unique<Worker>(
      WorkerOptions{.coordinators = {kCoordinatorAddress}, .name = node.name, .host = host, .address = host + ":1"},
      network_->clock(number), network_->rng(number), network_->transport(number), *node.replica, node);
  node.replica->set_events(node.worker.get());
  network_->boot(number, node.worker.get());
  node.worker->start();
}

void Scenario::kill_worker(size_t index, bool power) { network_->kill(workers_[index]->process, power); }

void Scenario::restart_worker(size_t index) {
  WorkerNode& node = *workers_[index];
  assert(!network_->alive(node.process));
  node.faults = {};
  node.stopped = node.failed = false;
  node.worker.reset();
  boot_worker(node);
}

void Scenario::strike_at_random(sim::SeededRng& rng) {
  const auto victim = static_cast<size_t>(rng.integer(0, static_cast<int64_t>(workers_.size()) - 1));
  WorkerNode& node = *workers_[victim];
  const int host = static_cast<int>(victim) + 1;
  const int other = static_cast<int>(rng.integer(0, static_cast<int64_t>(workers_.size())));  // 0: the coordinator's
  const bool alive = network_->alive(node.process);
  switch (rng.integer(0, 11)) {
    case 0:
    case 1:
      if (alive) kill_worker(victim, rng.chance(0.3));
      return;
    case 2:
      if (!alive) restart_worker(victim);
      return;
    case 3:
      kill_coordinator(rng.chance(0.4));
      if (rng.chance(0.5)) disk_.lose_power(rng);
      run_for(rng.between(0, 4000));
      return start_coordinator(true);
    case 4:
      if (other != host) network_->reset_connections(host, other);
      return;
    case 5:
      if (!alive || network_->paused(node.process)) return;
      network_->pause(node.process);
      run_for(rng.between(0, 5000));
      return network_->resume(node.process);
    case 6: return pause_coordinator(rng.between(0, 5000));
    case 7:
      if (workers_.size() < 8) add_worker();
      return;
    case 8: node.faults.nan = rng.between(0, 0.3); return;
    case 9: return;  // a wrong result is only found where most hold the right one
    case 10:
      if (other == host) return;
      network_->block(host, other);
      blocked_.push_back({host, other});
      return;
    case 11: node.faults.slow = rng.between(1, 10); return;
  }
}

void Scenario::calm_down() {
  for (const auto& [a, b] : blocked_) network_->unblock(a, b);
  blocked_.clear();
  for (auto& node : workers_) {
    node->faults = {};
    if (network_->alive(node->process) && node->over()) network_->kill(node->process, false);
    if (!network_->alive(node->process)) restart_worker(static_cast<size_t>(&node - workers_.data()));
  }
}

bool Scenario::run_until(const std::function<bool()>& condition, double limit_ms) {
  const uint64_t end = network_->now_ns() + static_cast<uint64_t>(limit_ms * 1e6);
  while (!condition()) {
    if (network_->now_ns() > end || !network_->step()) return false;
  }
  return true;
}

void Scenario::run_for(double ms) {
  const uint64_t end = network_->now_ns() + static_cast<uint64_t>(ms * 1e6);
  while (network_->now_ns() < end && network_->step()) {}
}

LedgerAudit Scenario::ledger_audit() {
  size_t read = 0;
  const auto records = decode_records(disk_.read(), &read);
  EXPECT_EQ(read, disk_.read().size());
  return audit(records);
}

void Scenario::check_sound() {
  ASSERT_TRUE(done_) << (failed_ ? error_ : "the run did not end; " + coordinator_->status().dump());
  const LedgerAudit proof = ledger_audit();
  EXPECT_EQ(proof.duplicates, 0);
  EXPECT_EQ(proof.missing, 0);
  EXPECT_EQ(proof.gaps, 0);
  if (setup_.max_rounds == 0) {
    EXPECT_EQ(proof.counted + proof.skipped, setup_.examples * setup_.epochs);
  }
  for (const std::string& complaint : complaints_) ADD_FAILURE() << complaint;
  for (const Json& event : events_) {
    if (const Json* cause = event.find("cause")) {
      EXPECT_EQ(cause->as_string().find("claims work"), std::string::npos) << "an honest worker was taken for a liar: " << event.dump();
    }
  }
  // On every live worker the parameters consist of what the ledger says.
  uint64_t hash = 0;
  size_t holders = 0;
  for (const auto& node : workers_) {
    if (!network_->alive(node->process) || node->over() || node->replica->round() != coordinator_->round()) continue;
    ++holders;
    if (hash == 0) hash = node->replica->contents().hash();
    EXPECT_EQ(node->replica->contents().hash(), hash) << node->name;
    double counted = 0;
    for (int64_t i = 0; i < setup_.examples; ++i) counted += static_cast<double>(node->replica->contents().sums[static_cast<size_t>(i)]);
    EXPECT_EQ(counted, static_cast<double>(proof.counted)) << node->name;
  }
  EXPECT_GT(holders, 0u);
  // Who has no connection at this moment gives up later.
  std::set<const WorkerNode*> away;
  for (const auto& node : workers_)
    if (node->worker->status().find("state")->as_string() == "connecting") away.insert(node.get());
  coordinator_->stop("finished", true);
  run_for(3000);
  for (const auto& node : workers_)
    if (network_->alive(node->process) && !node->over() && !away.contains(node.get()))
      ADD_FAILURE() << node->name << " was not stopped: " << node->worker->status().dump();
}

size_t Scenario::count_events(const std::string& name) const {
  size_t count = 0;
  for (const Json& event : events_) count += event.find("event")->as_string() == name;
  return count;
}

void Scenario::on_round(int64_t round, uint64_t, int64_t, int workers, const Figures&, int64_t examples) {
  EXPECT_EQ(round, coordinator_->round());
  members_of_round_.push_back(workers);
  examples_of_round_.push_back(examples);
}

void Scenario::on_epoch(uint64_t epoch) {
  epochs_.push_back(epoch);
  network_->post(coordinator_process_, 0, [this] {
    if (setup_.evaluate) coordinator_->request_evaluation("test", setup_.examples);
    else coordinator_->release();
  });
}

void Scenario::on_evaluated(const std::string& part, const std::vector<std::string>& states) {
  evaluated_.push_back(part + " in " + std::to_string(states.size()));
  network_->post(coordinator_process_, 0, [this] { coordinator_->release(); });
}

void Scenario::on_image(uint64_t, int64_t round, std::vector<std::byte> image) { images_.push_back({round, image.size()}); }

void Scenario::on_finished(int64_t) { done_ = true; }

}  // namespace perigee
