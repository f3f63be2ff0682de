// A simulated trainer's work between two exchanges: what it trains, in virtual time, and what it stages of it.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/ledger/fixed_plan.h"
#include "cluster/simulator/fake_replica.h"
#include "src/core/error.h"

namespace perigee::sim {
namespace {

constexpr double kRowsLookMs = 5;  // between two looks whether the rows of a step are here

}  // namespace

void FakeReplica::stage(size_t row, const Contents& contents, int64_t examples, bool counts) {
  const std::span<std::byte> block = exchange_row(row);
  std::memset(block.data(), 0, block.size());
  std::memcpy(block.data() + 4 * main_sum(), contents.sums.data(), contents.sums.size() * 4);
  for (size_t f = 0; f < contents.fragments.size(); ++f)
    std::memcpy(block.data() + parts_[f].begin, contents.fragments[f].data(), contents.fragments[f].size() * 4);
  std::memcpy(block.data() + static_cast<size_t>(layout_.sums) * 4, contents.maxima.data(), contents.maxima.size() * 8);
  write_exchange_tail({.examples = examples, .contributions = counts ? 1 : 0}, layout_, block);
}

void FakeReplica::stage_local() {
  Contents contents = local_;
  if (!local_finite_) contents.sums[0] = std::numeric_limits<float>::quiet_NaN();
  stage(staged_row_, contents, local_examples_, true);
  staged_ = local_;
  staged_examples_ = local_examples_;
}

void FakeReplica::train(const TrainOrder& order) {
  if (!holds_) complain_("a training order before any result");
  if (training_) complain_("a training order while another is under way");
  if (order.ranges.empty() && parts_.empty() && !order.inner && order.carried == 0 && !layout_.repeated)
    complain_("a training order without ranges");
  if (!order.gradient && (parts_.empty() ? staged_local_ && order.carried == 0 : staged_local_ != order.overlapped))
    complain_("a training order while a contribution is staged, or none is");
  if (order.overlapped && order.row == staged_row_) complain_("a contribution is to be staged where another is");
  if (!order.gradient && parts_.empty() && order.carried != local_examples_)
    complain_("an order carries " + std::to_string(order.carried) + " examples; trained are " + std::to_string(local_examples_));
  if (staged_local_ && payloads_) payloads_->settle(false);  // it is staged again
  if (!order.overlapped) staged_local_ = staged_payload_ = false;
  if (!order.gradient && order.ranges.size() > most_steps_) complain_("more local steps than the policy allows");
  for (const Range& range : order.ranges)
    if (range.begin < 0 || range.count < 0 || range.begin + range.count > options_.examples) return complain_("a range outside the data");
  training_ = std::make_unique<Training>();
  training_->order = order;
  training_->begun_ns = network_.now_ns();
  training_->contribution = {.round = order.round};
  const uint64_t token = ++token_;
  if (faults_.fails) {
    faults_.fails = false;
    later(1, [this, token] {
      if (token == token_) events_->on_failed(Error(ErrorKind::resources, {.what = "out of memory"}), false);
    });
    return;
  }
  if (faults_.stuck) return;
  if (order.ranges.empty() && !order.gradient)
    return later(0, [this, token] {
      if (token == token_) finish_local();
    });
  const double first = order.gradient || order.ranges.empty() ? 0 : options_.example_ms * static_cast<double>(order.ranges[0].count);
  later(first, [this, token] { progress(token); });
}

bool FakeReplica::waits_for_examples() const {
  return training_ && training_->lacks_rows_ns != 0 && network_.now_ns() - training_->lacks_rows_ns > 100 * kMs;
}

// Whether rows that are computed next are still missing.
bool FakeReplica::lacks_rows() {
  Training& t = *training_;
  if (!options_.rows || (t.order.gradient && t.step > 0)) return false;
  bool lacks = false;
  for (size_t i = t.order.gradient ? 0 : t.step; i < t.order.ranges.size() && (t.order.gradient || i == t.step); ++i)
    lacks |= !options_.rows(t.order.ranges[i]);
  if (!lacks) t.lacks_rows_ns = 0;
  else if (t.lacks_rows_ns == 0) t.lacks_rows_ns = network_.now_ns();
  return lacks;
}

// A gradient announces its buckets in the last third of the time; local steps are made one by one.
void FakeReplica::progress(uint64_t token) {
  if (token != token_ || !training_) return;
  Training& t = *training_;
  if (faults_.stuck) return;
  const auto again = [&](double ms) { later(ms, [this, token] { progress(token); }); };
  if (lacks_rows()) return again(kRowsLookMs);
  if (t.order.gradient) {
    int64_t examples = 0;
    for (const Range& range : t.order.ranges) examples += range.count;
    const double ms = options_.example_ms * static_cast<double>(examples);
    if (t.step == 0) {
      t.step = 1;
      return again(ms * 2 / 3);
    }
    if (t.bucket == 0) finish_training();  // fills the rows; what is announced may be read from then on
    if (t.bucket < buckets_.size()) {
      const uint32_t bucket = t.bucket++;
      again(ms / 3 / static_cast<double>(buckets_.size()));
      return events_->on_bucket(t.order.round, bucket);
    }
  } else if (t.order.ranges.empty()) {
    steps_done();
  } else {
    const Range range = t.order.ranges[t.step++];
    ++steps_;
    local_.add(range, options_.examples);
    local_examples_ += range.count;
    t.contribution.ranges.push_back(range);
    t.contribution.examples += range.count, t.contribution.steps += 1;
    if (faults_.nan > 0 && SeededRng(mix(network_.now_ns(), steps_)).chance(faults_.nan)) local_finite_ = false;
    if (options_.poisoned(range)) local_finite_ = false;
    const double passed_ms = static_cast<double>(network_.now_ns() - t.begun_ns) * 1e-6;
    const bool enough = t.order.stop_after_ms > 0 && passed_ms >= t.order.stop_after_ms;
    if (enough) t.order.ranges.resize(t.step);
    if (waits_for_result(t.step == t.order.ranges.size())) return;
    return go_on();
  }
  const Contribution contribution = std::move(t.contribution);
  training_.reset();
  ++token_;
  events_->on_contribution(contribution);
}

double FakeReplica::loss_now() const {
  if (options_.learns) return contents_.loss(options_.examples);
  return 2.2 + 0.2 * SeededRng(mix(network_.now_ns(), steps_)).uniform();
}

void FakeReplica::steps_done() {
  Training& t = *training_;
  if (faults_.outlying > 0 && SeededRng(mix(network_.now_ns(), ~steps_)).chance(faults_.outlying)) local_outlying_ = true;
  t.contribution.finite = local_finite_;
  t.contribution.figures.compute_s = static_cast<double>(network_.now_ns() - t.begun_ns) * 1e-9;
  t.contribution.norms.change = std::pow(static_cast<double>(t.contribution.steps), 0.75) * (local_outlying_ ? 1000 : 1);
  t.contribution.figures.loss_sum = static_cast<double>(t.contribution.examples) * loss_now();
  t.contribution.partials = {{0, 1}};
  staged_row_ = t.order.row;
  stage_local();
  staged_local_ = !t.order.inner;
  if (t.order.inner) inner_staged_ = local_;
  FakePayloads* payloads = t.order.inner ? inner_payloads_.get() : payloads_.get();
  if (payloads && local_finite_) t.contribution.payload = encode(*payloads, local_, local_examples_, t.order.round);
  t.contribution.staged_for = round_ + 1;
  if (!parts_.empty() && local_finite_) t.contribution.payload = encode_fragments_of(t.contribution.staged_for);
}

// The next local step, or what comes after the last.
void FakeReplica::go_on() {
  const Training& t = *training_;
  if (t.step == t.order.ranges.size()) return finish_local();
  later(options_.example_ms * static_cast<double>(t.order.ranges[t.step].count), [this, token = token_] { progress(token); });
}

void FakeReplica::finish_local() {
  if (training_->order.overlapped && staged_local_) complain_("a contribution is staged while another is on its way");
  steps_done();
  const Contribution contribution = std::move(training_->contribution);
  training_.reset();
  ++token_;
  events_->on_contribution(contribution);
}

// Each example `times` times.
void FakeReplica::stage_gradient(const TrainOrder& order, float times, Contribution* contribution) {
  const int first = order.first_leaf, last = first + static_cast<int>(order.ranges.size());
  contribution->partials = partials_of(first, last, order.leaves);
  for (size_t row = 0; row < contribution->partials.size(); ++row) {
    Contents contents(options_.examples);
    const Partial& partial = contribution->partials[row];
    int64_t examples = 0;
    for (int leaf = partial.first; leaf < partial.first + partial.count; ++leaf) {
      const Range& range = order.ranges[static_cast<size_t>(leaf - first)];
      contents.add(range, options_.examples, times);
      examples += range.count;
      if (options_.poisoned(range)) contribution->finite = false;
    }
    contents.maxima[1] = order.round;
    if (!contribution->finite) contents.sums[0] = std::numeric_limits<float>::quiet_NaN();
    stage(row, contents, examples, true);
    if (coded_steps_ && contribution->finite && examples > 0) contribution->payload = encode(*payloads_, contents, examples, order.round);
  }
}

void FakeReplica::finish_training() {
  Training& t = *training_;
  t.contribution.finite = !(faults_.nan > 0 && SeededRng(mix(network_.now_ns(), static_cast<uint64_t>(process_))).chance(faults_.nan));
  repeated_ = t.order;
  stage_gradient(t.order, layout_.repeated ? repeats_of(t.order.round) : 1, &t.contribution);
  if (layout_.passes == 2) {
    const std::span<std::byte> second = exchange_row(0).subspan(buckets_[1].begin);
    held_back_.assign(second.begin(), second.end());
    std::fill(second.begin(), second.end(), std::byte{0xff});
  }
  for (const Range& range : t.order.ranges) {
    t.contribution.examples += range.count;
    if (range.count > 0) t.contribution.ranges.push_back(range);
  }
  t.contribution.steps = 1;
  ++steps_;
}

}  // namespace perigee::sim
