#include "cluster/simulator/fake_replica.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "cluster/exchange/exchange_tail.h"
#include "cluster/ledger/fixed_plan.h"
#include "cluster/policy/policy.h"
#include "src/core/error.h"
#include "src/core/json.h"
#include "src/io/digest.h"

namespace perigee::sim {
namespace {

constexpr int64_t kEvaluationBatch = 8;

}  // namespace

void Contents::add(const Range& range, int64_t examples, float sign) {
  assert(range.begin >= 0 && range.begin + range.count <= examples);
  for (int64_t i = range.begin; i < range.begin + range.count; ++i) {
    sums[static_cast<size_t>(i)] += sign;
    sums[static_cast<size_t>(examples + i)] += sign * static_cast<float>(range.epoch + 1);
  }
  for (std::vector<float>& fragment : fragments)
    for (int64_t i = range.begin; i < range.begin + range.count; ++i) {
      fragment[static_cast<size_t>(i)] += sign;
      fragment[static_cast<size_t>(examples + i)] += sign * static_cast<float>(range.epoch + 1);
    }
  if (range.count > 0 && sign > 0)
    maxima[0] = std::max(maxima[0], static_cast<int64_t>(range.epoch) * examples + range.begin + range.count - 1);
}

// Falls with what was learnt, and is high again when that is lost.
double Contents::loss(int64_t examples) const {
  double applied = 0;
  for (int64_t i = 0; i < examples; ++i) applied += static_cast<double>(sums[static_cast<size_t>(i)]);
  return 0.1 + 2.2 * std::exp(-3 * applied / static_cast<double>(examples));
}

uint64_t Contents::hash() const {
  uint64_t a = mix(xxh3_64(std::as_bytes(std::span(sums))), rounding), b = xxh3_64(std::as_bytes(std::span(maxima)));
  for (const std::vector<float>& fragment : fragments) a = xxh3_64(std::as_bytes(std::span(fragment)), a);
  return mix(a, b) | 1;  // 0 is "no result"
}

FakeReplica::FakeReplica(Options options, Network& network, int process, ReplicaFaults& faults,
                         std::function<void(const std::string&)> complain)
    : options_(options),
      network_(network),
      process_(process),
      faults_(faults),
      complain_(std::move(complain)),
      contents_(options.examples),
      local_(options.examples),
      staged_(options.examples) {
  layout_ = {.sums = 2 * options_.examples + kExchangeTail, .maxima = 2};
  cut_buckets();
}

// The tail and the maxima are in the last bucket: they are known last.
void FakeReplica::cut_buckets() {
  buckets_.clear();
  const size_t sums = static_cast<size_t>(layout_.sums) * 4;
  const int count = std::max(1, options_.buckets);
  size_t begin = 0;
  for (int b = 0; b < count; ++b) {
    const size_t end = b + 1 == count ? layout_.bytes() : sums / static_cast<size_t>(count) / 8 * 8 * static_cast<size_t>(b + 1);
    buckets_.push_back({begin, end});
    begin = end;
  }
}

std::span<std::byte> FakeReplica::exchange_row(size_t row) {
  if (row >= 64) complain_("exchange row " + std::to_string(row) + " was asked for");
  while (rows_.size() <= row) rows_.emplace_back((layout_.bytes() + 3) / 4);
  return std::as_writable_bytes(std::span(rows_[row])).first(layout_.bytes());
}

// On the trainer's own time, after what it was asked before.
void FakeReplica::later(double ms, std::function<void()> what) {
  const uint64_t now = network_.now_ns();
  free_at_ns_ = std::max(free_at_ns_, now) + static_cast<uint64_t>(ms * faults_.slow * 1e6);
  network_.post(process_, free_at_ns_ - now, std::move(what));
}

void FakeReplica::open(const Welcome& welcome) {
  const Json job = Json::parse(welcome.job, "job");
  const Policy policy = read_policy(job.find("averaging"), "job");
  coded_steps_ = policy.coded_steps();
  any_workers_ = policy.shards > 0 || policy.served;
  const auto code = [&](ExchangeLayout* layout) {
    auto payloads = std::make_unique<FakePayloads>(contents_.sums.size());
    layout->coded = contents_.sums.size() * sizeof(float);
    layout->payload_bound = payloads->bound();
    return payloads;
  };
  inner_layout_ = layout_;
  if (!policy.inner.codec.is_null()) inner_payloads_ = code(&inner_layout_);
  if (policy.every_ms == 0 && !options_.steered) most_steps_ = static_cast<size_t>(policy.pace.automatic ? policy.pace.most : policy.every);
  if (policy.partial()) {
    set_up_fragments(policy);
  } else if (coded_steps_ && *policy.codec.find("type") == Json("lowrank")) {
    coded_steps_ = false;
    cut_in_passes();
  } else if (const Json* optimizer = job.find("optimizer"); optimizer && *optimizer == Json("lbfgs")) {
    set_up_repeats();
  } else if (policy.coded()) {
    payloads_ = code(&layout_);
    layout_.values = image_of(-1, contents_).size();
  }
  later(20, [this] { events_->on_opened(options_.fingerprint); });
}

SharedBytes FakeReplica::encode(FakePayloads& payloads, const Contents& contents, int64_t examples, int64_t round) {
  SharedBytes payload = payloads.encode(contents.sums, examples, round);
  if (&payloads == payloads_.get()) staged_payload_ = true;
  check_conserved();
  if (faults_.bad_payloads == 0) return payload;
  --faults_.bad_payloads;
  return std::make_shared<const std::vector<std::byte>>(payload->begin(), payload->end() - 1);
}

void FakeReplica::check_conserved() {
  if ((payloads_ && !payloads_->conserved()) || (inner_payloads_ && !inner_payloads_->conserved()))
    complain_("what its codec has not sent was lost or is there twice");
}

// False: a payload is none.
bool FakeReplica::merge(const ApplyOrder& order, std::vector<float>* sums, size_t* refused) {
  const bool coded = coded_steps_ || staged_local_ || !order.payloads.empty();
  if (!payloads_ || !coded || order.alone) {
    std::memcpy(sums->data(), exchange_row(order.row).data() + 4 * main_sum(), sums->size() * 4);
    return true;
  }
  for (size_t i = 0; i < order.payloads.size(); ++i) {
    int64_t examples = 0;
    *refused = i;
    if (!payloads_->add(*order.payloads[i].bytes, *sums, &examples)) return false;
    if (examples != order.payloads[i].examples)
      complain_("a payload of " + std::to_string(examples) + " examples is merged as one of " + std::to_string(order.payloads[i].examples));
  }
  return true;
}

// Merges the row and the payloads into the result. Returns the number of a payload that is none.
std::optional<size_t> FakeReplica::add_merged(const ApplyOrder& order) {
  const std::span<std::byte> row = exchange_row(order.row);
  const ExchangeTail tail = read_exchange_tail(layout_, row);
  std::vector<float> sums(contents_.sums.size());
  std::vector<int64_t> maxima(contents_.maxima.size());
  size_t refused = 0;
  if (!merge(order, &sums, &refused)) return refused;
  if (!parts_.empty() && !staged_local_) {
    for (std::vector<float>& fragment : contents_.fragments)
      for (size_t i = 0; i < sums.size(); ++i) fragment[i] += sums[i];
  } else if (!parts_.empty() && !merge_fragments(order, &refused)) {
    return refused;
  }
  std::memcpy(maxima.data(), row.data() + static_cast<size_t>(layout_.sums) * 4, maxima.size() * 8);
  double counted = 0;
  for (int64_t i = 0; i < options_.examples; ++i) counted += static_cast<double>(sums[static_cast<size_t>(i)]);
  // Among three or more, only one is ever too large, and can be told from the others.
  if (staged_local_ && local_outlying_ && local_examples_ > 0 && tail.contributions >= 3)
    complain_("round " + std::to_string(order.round) + " takes in a contribution that is far too large");
  if (tail.examples != order.examples || counted != static_cast<double>(order.examples))
    complain_("round " + std::to_string(order.round) + " is said to sum " + std::to_string(order.examples) + " examples; its tail says " +
              std::to_string(tail.examples) + ", its sums " + std::to_string(counted));
  for (size_t i = 0; i < sums.size(); ++i) contents_.sums[i] += sums[i];
  for (size_t i = 0; i < maxima.size(); ++i) contents_.maxima[i] = std::max(contents_.maxima[i], maxima[i]);
  if (!any_workers_) contents_.rounding = mix(contents_.rounding, static_cast<uint64_t>(tail.contributions));
  return std::nullopt;
}

void FakeReplica::forget_local() {
  local_ = staged_ = blank();
  local_examples_ = staged_examples_ = 0;
  staged_local_ = local_outlying_ = false, local_finite_ = true;
}

void FakeReplica::apply(const ApplyOrder& order) {
  if (training_ && !training_->order.overlapped) complain_("apply while training");
  if (!holds_ || order.round != round_ + 1)
    complain_("round " + std::to_string(order.round) + " applied to the result of round " + std::to_string(round_));
  const bool early = training_ && static_cast<int64_t>(training_->step) < late_ && !training_->waits;
  if (early) held_ = [this, order] { apply_now(order); };
  else apply_now(order);
}

void FakeReplica::apply_now(const ApplyOrder& order) {
  later(options_.apply_ms, [this, round = order.round, examples = order.examples, order] {
    if (layout_.passes == 2 && !std::equal(made_of_.begin(), made_of_.end(), exchange_row(0).begin()))
      complain_("a part was made of sums that were not complete");
    if (examples > 0)
      if (const std::optional<size_t> refused = add_merged(order)) return events_->on_payload_refused(round, *refused);
    if (payloads_) {
      payloads_->settle(staged_payload_ && examples > 0 && !order.alone);
      staged_payload_ = false;
      check_conserved();
    }
    if (inner_payloads_) inner_payloads_->settle(false);
    if (faults_.wrong_apply) contents_.sums[0] += 0.5f, faults_.wrong_apply = false;
    if (parts_.empty()) forget_local();
    else forget_staged();
    round_ = round;
    if (watch_) watch_(round);
    events_->on_applied(round, contents_.hash());
    if (training_ && std::exchange(training_->waits, false)) go_on();
  });
}

void FakeReplica::load(int64_t round, SharedBytes image, bool keep_local) {
  if (!keep_local) drop();
  later(1, [this, round, image = std::move(image), keep_local] {
    if (!image) {
      contents_ = blank();
      round_ = -1;
      holds_ = true;
    } else {
      int64_t found = 0;
      Contents contents;
      if (!read_image(*image, &found, &contents) || contents.sums.size() != contents_.sums.size()) {
        complain_("an image that cannot be read");
      } else {
        if (found != round) complain_("an image of round " + std::to_string(found) + " for round " + std::to_string(round));
        contents_ = std::move(contents);
        round_ = found;
        holds_ = true;
      }
    }
    if (!keep_local && payloads_) payloads_->overtaken();
    if (!keep_local && inner_payloads_) inner_payloads_->overtaken();
    if (keep_local && staged_local_) stage_local();
    events_->on_loaded(round_, contents_.hash());
  });
}

void FakeReplica::snapshot(uint64_t request, bool with_optimizer) {
  later(1, [this, request, with_optimizer] {
    if (faults_.withholds) return network_.post(process_, 50 * kMs, [this, request, with_optimizer] { snapshot(request, with_optimizer); });
    if (!holds_) return events_->on_snapshot(request, -1, 0, nullptr);
    events_->on_snapshot(request, round_, contents_.hash(), std::make_shared<const std::vector<std::byte>>(image_of(round_, contents_)));
  });
}

void FakeReplica::evaluate(const Evaluate& order) { evaluate_from(order, order.begin); }

void FakeReplica::evaluate_from(const Evaluate& order, int64_t begin) {
  const int64_t batch = std::clamp<int64_t>(order.end - begin, 0, kEvaluationBatch);
  later(0.1 * static_cast<double>(batch), [this, order, begin, batch] {
    if (faults_.stuck) return;
    evaluated_ += batch;
    if (begin + batch < order.end) return evaluate_from(order, begin + batch);
    Json state = Json::object();
    state.set("begin", order.begin), state.set("end", order.end), state.set("round", round_);
    events_->on_evaluated(order.request, state.dump());
  });
}

void FakeReplica::drop() {
  training_.reset();
  ++token_;
  local_ = staged_ = blank();
  local_examples_ = staged_examples_ = 0;
  held_ = nullptr;
  staged_local_ = staged_payload_ = local_outlying_ = false, local_finite_ = true;
  if (payloads_) payloads_->drop();
  if (inner_payloads_) inner_payloads_->drop();
}

std::vector<std::byte> FakeReplica::image_of(int64_t round, const Contents& contents) {
  const int64_t head[4] = {round, static_cast<int64_t>(contents.sums.size()), static_cast<int64_t>(contents.maxima.size()),
                           static_cast<int64_t>(contents.rounding)};
  std::vector<std::byte> bytes(sizeof head + contents.sums.size() * 4 + contents.maxima.size() * 8);
  std::memcpy(bytes.data(), head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, contents.sums.data(), contents.sums.size() * 4);
  std::memcpy(bytes.data() + sizeof head + contents.sums.size() * 4, contents.maxima.data(), contents.maxima.size() * 8);
  for (const std::vector<float>& fragment : contents.fragments) {
    const auto values = std::as_bytes(std::span(fragment));
    bytes.insert(bytes.end(), values.begin(), values.end());
  }
  return bytes;
}

bool FakeReplica::read_image(std::span<const std::byte> bytes, int64_t* round, Contents* contents) {
  int64_t head[4];
  if (bytes.size() < sizeof head) return false;
  std::memcpy(head, bytes.data(), sizeof head);
  if (head[1] < 0 || head[2] < 0 || head[1] > 1 << 20 || head[2] > 1 << 10) return false;
  const size_t one = static_cast<size_t>(head[1]) * 4, all = sizeof head + one + static_cast<size_t>(head[2]) * 8;
  if (bytes.size() < all || one == 0 || (bytes.size() - all) % one != 0) return false;
  *round = head[0];
  contents->rounding = static_cast<uint64_t>(head[3]);
  contents->sums.resize(static_cast<size_t>(head[1]));
  contents->maxima.resize(static_cast<size_t>(head[2]));
  std::memcpy(contents->sums.data(), bytes.data() + sizeof head, contents->sums.size() * 4);
  std::memcpy(contents->maxima.data(), bytes.data() + sizeof head + contents->sums.size() * 4, contents->maxima.size() * 8);
  contents->fragments.assign((bytes.size() - all) / one, std::vector<float>(contents->sums.size()));
  for (size_t f = 0; f < contents->fragments.size(); ++f) std::memcpy(contents->fragments[f].data(), bytes.data() + all + f * one, one);
  return true;
}

}  // namespace perigee::sim
