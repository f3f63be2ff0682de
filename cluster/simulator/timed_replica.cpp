#include "cluster/simulator/timed_replica.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cluster/policy/policy.h"
#include "src/core/json.h"

namespace perigee::sim {
namespace {

constexpr double kForward = 1.0 / 3;  // of a gradient's time: no bucket is ready before backward begins

}  // namespace

TimedReplica::TimedReplica(const StepTimes& times, std::unique_ptr<ReplicaNumbers> numbers, WorkDone& work, Network& network, int process)
    : times_(times), numbers_(std::move(numbers)), work_(work), network_(network), process_(process) {}

double TimedReplica::step_ms(int64_t examples) const {
  return times_.step_ms * static_cast<double>(examples) / static_cast<double>(times_.batch);
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
    training_->compute_ms += ms * work_.slowness;
    (this->*then)();
  });
}

void TimedReplica::open(const Welcome& welcome) {
  numbers_->open(welcome);
  late_ = read_policy(Json::parse(welcome.job, "job").find("averaging"), "job").late;
  later(0, [this] { events_->on_opened(1); });
}

void TimedReplica::train(const TrainOrder& order) {
  if (work_.first_order_ns == 0) work_.first_order_ns = network_.now_ns();
  if (order.gradient) work_.lose();  // of a round that was broken off
  training_ = std::make_unique<Training>();
  training_->order = order;
  training_->begun_ns = network_.now_ns();
  if (!order.overlapped) staged_ = false, staged_pending_ = 0;
  const uint64_t token = ++token_;
  later(0, [this, token] {
    if (token == token_) numbers_->begin(training_->order);
  });
  if (!order.gradient) return go_on();
  const int64_t examples = std::accumulate(order.ranges.begin(), order.ranges.end(), int64_t{0},
                                           [](int64_t sum, const Range& range) { return sum + range.count; });
  const double ms = step_ms(examples), backward = ms * (1 - kForward) / static_cast<double>(buckets().size());
  repeated_ms_ = ms;
  compute(ms * kForward, token, &TimedReplica::bucket_done);
  for (size_t i = 0; i < buckets().size(); ++i) compute(backward, token, &TimedReplica::bucket_done);
}

void TimedReplica::compute_step(bool last) {
  training_->contribution = numbers_->step(last);
  ++steps_;
}

// The next local step; after the last, staging.
void TimedReplica::go_on() {
  Training& t = *training_;
  if (!t.contribution && t.step < t.order.ranges.size())
    return compute(step_ms(t.order.ranges[t.step].count), token_, &TimedReplica::step_done);
  later(times_.stage_ms, [this, token = token_] {
    if (token != token_) return;
    Training& done = *training_;
    if (!done.contribution) done.contribution = numbers_->step(true);
    done.contribution->figures.compute_s = done.compute_ms * 1e-3;
    done.contribution->figures.encode_s = times_.stage_ms * work_.slowness * 1e-3;
    done.contribution->figures.load_s = 0;
    const bool lost = work_.lossy > 0 && static_cast<double>(network_.rng(process_).next() >> 11) * 0x1p-53 < work_.lossy;
    if (lost) done.contribution->finite = false, done.contribution->examples = done.contribution->steps = 0;
    staged_ = !done.order.inner;
    staged_pending_ = work_.pending;
    contribute();
  });
}

// One local step.
void TimedReplica::step_done() {
  Training& t = *training_;
  work_.pending += t.order.ranges[t.step].count;
  const double passed_ms = static_cast<double>(network_.now_ns() - t.begun_ns) * 1e-6;
  const bool enough = t.order.stop_after_ms > 0 && passed_ms >= t.order.stop_after_ms;
  ++t.step;
  if (enough) t.order.ranges.resize(t.step);
  const bool last = t.step == t.order.ranges.size();
  compute_step(last);
  const bool must = last || t.contribution || (late_ > 0 && static_cast<int64_t>(t.step) >= late_);
  if (!t.order.overlapped || !staged_ || !must) return go_on();
  t.waits = true;
  if (const std::function<void()> apply = std::exchange(held_, nullptr)) apply();
}

// Forward is done, then one bucket after the other.
void TimedReplica::bucket_done() {
  Training& t = *training_;
  if (t.bucket++ == 0) return compute_step(true);
  const uint32_t bucket = t.bucket - 2;
  const bool last = bucket + 1 == buckets().size();
  if (last) {
    for (const Range& range : t.order.ranges) work_.pending += range.count;
    t.contribution->figures.compute_s = t.compute_ms * 1e-3;
    t.contribution->figures.encode_s = t.contribution->figures.load_s = 0;
  }
  if (t.contribution->finite) events_->on_bucket(t.order.round, bucket);
  if (last && training_) contribute();
}

void TimedReplica::contribute() {
  const Contribution contribution = *std::move(training_->contribution);
  training_.reset();
  ++token_;
  events_->on_contribution(contribution);
}

void TimedReplica::make_part(const PartOrder& order) {
  // A repeated sum takes as long as the first; whether there is another the numbers say.
  const bool repeated = numbers_->layout().repeated;
  later(0, [this, order, repeated, token = token_] {
    if (token != token_) return;
    if (!numbers_->make_part(order)) return events_->on_parts_over(order.round);
    later(repeated ? repeated_ms_ : 0, [this, order, token] {
      if (token == token_) events_->on_bucket(order.round, static_cast<uint32_t>(order.pass));
    });
  });
}

void TimedReplica::apply(const ApplyOrder& order) {
  const bool early = training_ && !training_->waits && static_cast<int64_t>(training_->step) < late_;
  if (early) held_ = [this, order] { apply_now(order); };
  else apply_now(order);
}

void TimedReplica::apply_now(const ApplyOrder& order) {
  later(times_.apply_ms, [this, order] {
    if (const std::optional<size_t> refused = numbers_->apply(order)) return events_->on_payload_refused(order.round, *refused);
    work_.pending -= staged_ ? std::exchange(staged_pending_, 0) : work_.pending;
    staged_ = false;
    events_->on_applied(order.round, numbers_->hash());
    if (training_ && std::exchange(training_->waits, false)) go_on();
  });
}

// Only to tell the parameters takes the server no time.
void TimedReplica::serve(const ApplyOrder& order) {
  later(order.payloads.empty() ? 0 : times_.apply_ms * static_cast<double>(order.payloads.size()), [this, order] {
    SharedBytes reply;
    bool change = false;
    if (const std::optional<size_t> refused = numbers_->serve(order, &reply, &change))
      return events_->on_payload_refused(order.round, *refused);
    ++steps_;
    events_->on_served(numbers_->round(), numbers_->hash(), std::move(reply), change);
  });
}

void TimedReplica::take(const TakeOrder& order) {
  if (!order.counted) drop();
  later(order.bytes ? times_.take_ms : 0, [this, order] {
    const bool ok = numbers_->take(order);
    if (order.counted) work_.pending = 0;
    staged_ = false;
    events_->on_taken(order.round, ok);
  });
}

void TimedReplica::apply_inner(const InnerApplyOrder& order) {
  later(times_.apply_ms, [this, order] {
    const std::optional<size_t> refused = numbers_->apply_inner(order);
    events_->on_inner_applied(order.round, order.index, refused ? static_cast<int>(*refused) : -1);
  });
}

void TimedReplica::load(int64_t round, SharedBytes image, bool keep_local) {
  if (!keep_local) drop();
  later(times_.apply_ms, [this, round, image = std::move(image), keep_local] {
    numbers_->load(round, image, keep_local);
    events_->on_loaded(numbers_->round(), numbers_->hash());
  });
}

void TimedReplica::snapshot(uint64_t request, bool with_optimizer) {
  later(0, [this, request, with_optimizer] {
    events_->on_snapshot(request, numbers_->round(), numbers_->hash(), numbers_->snapshot(with_optimizer));
  });
}

void TimedReplica::evaluate(const Evaluate& order) {
  later(0, [this, order] { events_->on_evaluated(order.request, numbers_->evaluate(order)); });
}

void TimedReplica::unstage() {
  staged_ = false;
  staged_pending_ = 0;
  later(0, [this, token = token_] {
    numbers_->unstage();
    if (token == token_ && training_ && std::exchange(training_->waits, false)) go_on();
  });
}

void TimedReplica::drop() {
  training_.reset();
  staged_ = false;
  staged_pending_ = 0;
  held_ = nullptr;
  ++token_;
  work_.lose();
  later(0, [this] { numbers_->drop(); });
}

}  // namespace perigee::sim
