#include "cluster/simulator/timed_replica.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cluster/fixed_plan.h"
#include "cluster/simulator/seeded_rng.h"

namespace perigee::sim {
namespace {

constexpr double kForward = 1.0 / 3;  // of a gradient's time: no bucket is ready before backward begins

uint64_t hash_of(int64_t round) { return mix(0x726573756c74, static_cast<uint64_t>(round + 2)) | 1; }  // 0 is "no result"

}  // namespace

TimedReplica::TimedReplica(TimedModel& model, WorkDone& work, Network& network, int process)
    : model_(model), work_(work), network_(network), process_(process) {}

std::span<std::byte> TimedReplica::exchange_row(size_t row) {
  while (model_.rows.size() <= row) model_.rows.push_back(std::make_unique<BlankMemory>(model_.layout.bytes()));
  return model_.rows[row]->bytes();
}

double TimedReplica::step_ms(int64_t examples) const {
  return model_.times.step_ms * static_cast<double>(examples) / static_cast<double>(model_.times.batch);
}

void TimedReplica::later(double ms, std::function<void()> what) {
  const uint64_t now = network_.now_ns();
  free_at_ns_ = std::max(free_at_ns_, now) + static_cast<uint64_t>(ms * work_.slowness * 1e6);
  network_.post(process_, free_at_ns_ - now, std::move(what));
}

void TimedReplica::compute(double ms, uint64_t token, void (TimedReplica::*then)()) {
  later(ms, [this, ms, token, then] {
    if (token != token_) return;
    work_.computing_ns += static_cast<uint64_t>(ms * work_.slowness * 1e6);
    (this->*then)();
  });
}

void TimedReplica::open(const Welcome&) {
  later(0, [this] { events_->on_opened(1); });
}

void TimedReplica::train(const TrainOrder& order) {
  if (work_.first_order_ns == 0) work_.first_order_ns = network_.now_ns();
  if (order.gradient) work_.lose();  // of a round that was broken off
  training_ = std::make_unique<Training>();
  training_->order = order;
  training_->begun_ns = network_.now_ns();
  training_->contribution.round = order.round;
  const uint64_t token = ++token_;
  if (!order.gradient) return compute(step_ms(order.ranges.front().count), token, &TimedReplica::step_done);
  const int64_t examples = std::accumulate(order.ranges.begin(), order.ranges.end(), int64_t{0},
                                           [](int64_t sum, const Range& range) { return sum + range.count; });
  const double ms = step_ms(examples), backward = ms * (1 - kForward) / static_cast<double>(model_.buckets.size());
  compute(ms * kForward, token, &TimedReplica::bucket_done);
  for (size_t i = 0; i < model_.buckets.size(); ++i) compute(backward, token, &TimedReplica::bucket_done);
}

void TimedReplica::count(const Range& range) {
  Contribution& contribution = training_->contribution;
  contribution.examples += range.count;
  if (range.count > 0) contribution.ranges.push_back(range);
  work_.pending += range.count;
}

// One local step.
void TimedReplica::step_done() {
  Training& t = *training_;
  count(t.order.ranges[t.step++]);
  ++t.contribution.steps, ++steps_;
  const double passed_ms = static_cast<double>(network_.now_ns() - t.begun_ns) * 1e-6;
  const bool enough = t.order.stop_after_ms > 0 && passed_ms >= t.order.stop_after_ms;
  if (t.step < t.order.ranges.size() && !enough) return compute(step_ms(t.order.ranges[t.step].count), token_, &TimedReplica::step_done);
  t.contribution.partials = {{0, 1}};
  t.contribution.payload = model_.payload;
  later(model_.times.stage_ms, [this, token = token_] {
    if (token == token_) contribute();
  });
}

// Forward is done, then one bucket after the other.
void TimedReplica::bucket_done() {
  Training& t = *training_;
  if (t.bucket++ == 0) return;
  const uint32_t bucket = t.bucket - 2;
  const bool last = bucket + 1 == model_.buckets.size();
  if (last) {
    for (const Range& range : t.order.ranges) count(range);
    t.contribution.steps = 1, ++steps_;
    t.contribution.partials = partials_of(t.order.first_leaf, t.order.first_leaf + static_cast<int>(t.order.ranges.size()), t.order.leaves);
  }
  events_->on_bucket(t.order.round, bucket);
  if (last && training_) contribute();
}

void TimedReplica::contribute() {
  const Contribution contribution = std::move(training_->contribution);
  training_.reset();
  ++token_;
  events_->on_contribution(contribution);
}

void TimedReplica::apply(const ApplyOrder& order) {
  later(model_.times.apply_ms, [this, round = order.round] {
    work_.pending = 0;
    round_ = round;
    events_->on_applied(round, hash_of(round));
  });
}

void TimedReplica::load(int64_t round, SharedBytes, bool keep_local) {
  if (!keep_local) drop();
  later(model_.times.apply_ms, [this, round] {
    round_ = round;
    events_->on_loaded(round, hash_of(round));
  });
}

void TimedReplica::snapshot(uint64_t request, bool) {
  later(0, [this, request] { events_->on_snapshot(request, round_, hash_of(round_), model_.image); });
}

void TimedReplica::evaluate(const Evaluate& order) {
  later(0, [this, request = order.request] { events_->on_evaluated(request, "{}"); });
}

void TimedReplica::drop() {
  training_.reset();
  ++token_;
  work_.lose();
}

}  // namespace perigee::sim
