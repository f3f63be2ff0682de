#include "cluster/replica/trainer_replica.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "cluster/data/data_print.h"
#include "cluster/ledger/fixed_plan.h"
#include "cluster/ledger/trainer_record.h"

namespace perigee {
namespace {

// The job is at fault rather than this machine: a description that does not fit together. Missing or damaged data, memory and numbers may
// be another's luck.
bool fails_everywhere(const Error& error) { return error.kind() == ErrorKind::model || error.kind() == ErrorKind::usage; }

}  // namespace

TrainerReplica::TrainerReplica(ReplicaEvents& events, std::function<void()> wake, ReplicaTrainerOptions options)
    : events_(events), wake_(std::move(wake)), options_(options), thread_([this] { trainer_main(); }) {}

TrainerReplica::~TrainerReplica() {
  stop_ = true;
  cancel_ = true;
  requests_.wake();
  thread_.join();
}

// ---- loop thread ----

TrainerReplica::Request* TrainerReplica::request(Request::Kind kind) {
  Request* request = requests_.place();
  if (request) request->kind = kind;
  return request;
}

void TrainerReplica::send() { requests_.push(); }

// The counter comes first: the trainer clears the flag and then looks at the counter.
void TrainerReplica::give_up_order() {
  live_order_ = 0;
  give_ups_.fetch_add(1);
  cancel_ = true;
}

void TrainerReplica::open(const Welcome& welcome) {
  Request* request = this->request(Request::Kind::open);
  assert(request);  // the first
  request->welcome = welcome;
  send();
}

std::span<std::byte> TrainerReplica::exchange_row(size_t row) {
  assert(layout_.sums > 0 && row < kMaxWorkers);
  while (rows_.size() <= row) {
    auto storage = std::make_unique<Storage>(layout_.bytes());
    std::fill_n(storage->data(), storage->bytes(), std::byte{0});
    rows_.push_back(std::move(storage));
  }
  return {rows_[row]->data(), layout_.bytes()};
}

void TrainerReplica::train(const TrainOrder& order) {
  Request* request = this->request(Request::Kind::train);
  assert(request);  // one order, one result, a few questions: the protocol never has so many open
  size_t rows = 1;
  if (order.gradient) rows = partials_of(order.first_leaf, order.first_leaf + static_cast<int>(order.ranges.size()), order.leaves).size();
  request->rows.clear();
  for (size_t i = 0; i < std::max<size_t>(rows, 1); ++i) request->rows.push_back(exchange_row(order.row + i).data());
  request->train = order;
  request->order = live_order_ = ++last_order_;
  send();
}

void TrainerReplica::make_part(const PartOrder& order) {
  Request* request = this->request(Request::Kind::part);
  assert(request);
  request->part = order;
  send();
}

void TrainerReplica::apply(const ApplyOrder& order) {
  Request* request = this->request(Request::Kind::apply);
  assert(request);
  request->apply = order;
  request->rows.assign(1, exchange_row(order.row).data());
  send();
}

void TrainerReplica::unstage() {
  [[maybe_unused]] Request* request = this->request(Request::Kind::unstage);
  assert(request);
  send();
}

void TrainerReplica::apply_inner(const InnerApplyOrder& order) {
  Request* request = this->request(Request::Kind::apply_inner);
  assert(request);
  request->inner = order;
  request->rows.assign(1, exchange_row(0).data());
  send();
}

void TrainerReplica::serve(const ApplyOrder& order) {
  Request* request = this->request(Request::Kind::serve);
  assert(request);
  request->apply = order;
  request->rows.assign(1, exchange_row(0).data());
  send();
}

void TrainerReplica::take(const TakeOrder& order) {
  Request* request = this->request(Request::Kind::take);
  assert(request);
  request->take = order;
  send();
}

void TrainerReplica::load(int64_t round, SharedBytes image, bool keep_local) {
  Request* request = this->request(Request::Kind::load);
  assert(request);
  request->round = round;
  request->image = std::move(image);
  request->flag = keep_local;
  if (!keep_local) give_up_order();
  send();
}

void TrainerReplica::drop() {
  Request* request = this->request(Request::Kind::drop);
  assert(request);
  give_up_order();
  (void)request;
  send();
}

void TrainerReplica::snapshot(uint64_t id, bool with_optimizer) {
  Request* request = this->request(Request::Kind::snapshot);
  if (!request) {  // many want to heal from here at once: the others may ask elsewhere
    refused_.push_back(id);
    return wake_();
  }
  request->request = id;
  request->flag = with_optimizer;
  send();
}

void TrainerReplica::evaluate(const Evaluate& order) {
  Request* request = this->request(Request::Kind::evaluate);
  assert(request);
  request->evaluate = order;
  send();
}

void TrainerReplica::deliver() {
  for (const uint64_t id : std::exchange(refused_, {})) events_.on_snapshot(id, -1, 0, nullptr);
  // At most one queue's worth, so that a busy trainer cannot keep the loop.
  for (size_t i = 0; i < kAnswers; ++i) {
    Answer* answer = answers_.front();
    if (!answer) return;
    deliver(*answer);
    answer->image.reset();
    answer->contribution.payload.reset();
    answers_.pop();
  }
}

void TrainerReplica::deliver(const Answer& answer) {
  switch (answer.kind) {
    case Answer::Kind::opened:
      layout_ = answer.layout;
      inner_layout_ = answer.inner_layout;
      buckets_ = answer.buckets;
      fragments_ = answer.fragments;
      data_prints_ = answer.data_prints;
      return events_.on_opened(answer.hash);
    case Answer::Kind::loaded: return events_.on_loaded(answer.round, answer.hash);
    case Answer::Kind::bucket:
      if (answer.order == live_order_) events_.on_bucket(answer.round, static_cast<uint32_t>(answer.request));
      return;
    case Answer::Kind::parts_over:
      if (answer.order == live_order_) events_.on_parts_over(answer.round);
      return;
    case Answer::Kind::contribution:
      if (answer.order == live_order_) events_.on_contribution(answer.contribution);
      return;
    case Answer::Kind::applied: return events_.on_applied(answer.round, answer.hash);
    case Answer::Kind::refused: return events_.on_payload_refused(answer.round, answer.request);
    case Answer::Kind::served: return events_.on_served(answer.round, answer.hash, answer.image, answer.flag);
    case Answer::Kind::taken: return events_.on_taken(answer.round, answer.flag);
    case Answer::Kind::inner_applied: return events_.on_inner_applied(answer.round, answer.index, answer.refused);
    case Answer::Kind::snapshot: return events_.on_snapshot(answer.request, answer.round, answer.hash, answer.image);
    case Answer::Kind::evaluated: return events_.on_evaluated(answer.request, answer.text);
    case Answer::Kind::failed: return events_.on_failed(*answer.error, answer.for_all);
  }
}

// ---- trainer thread ----

TrainerReplica::Answer* TrainerReplica::answer(Answer::Kind kind) {
  Answer* place = answers_.place();
  while (!place && !stop_) {  // the loop is behind; it takes a whole queue at a time
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    place = answers_.place();
  }
  if (place) place->kind = kind;
  return place;
}

void TrainerReplica::post() {
  answers_.push();
  wake_();
}

void TrainerReplica::trainer_main() {
  while (!stop_) {
    Request* request = requests_.front();
    if (!request) {
      requests_.wait(stop_);
      continue;
    }
    popped_ = false;
    std::optional<Error> failed;
    try {
      if (!broken_) handle(*request);
    } catch (const Error& error) {
      failed = error;
    } catch (const std::exception& error) {
      failed = Error(ErrorKind::resources, {.where = "trainer", .what = error.what()});
    }
    if (failed) {
      broken_ = true;
      if (Answer* answer = this->answer(Answer::Kind::failed)) {
        answer->error = failed;
        answer->for_all = !opened_ && fails_everywhere(*failed);
        post();
      }
    }
    if (!popped_) requests_.pop();
  }
  trainer_.reset();  // on its own thread, like its making
}

void TrainerReplica::answer_loaded() {
  Answer* answer = this->answer(Answer::Kind::loaded);
  if (!answer) return;
  answer->round = trainer_->round();
  answer->hash = trainer_->hash();
  post();
}

// Serves a request that is allowed while an order is in progress. False: it is not such a request.
bool TrainerReplica::answer_beside_training(Request& request) {
  switch (request.kind) {
    case Request::Kind::snapshot: {
      SharedBytes image = trainer_->snapshot(request.flag);
      if (options_.record && request.flag) options_.record->imaged(image, order_steps_);
      Answer* answer = this->answer(Answer::Kind::snapshot);
      if (!answer) return true;
      answer->request = request.request;
      answer->round = trainer_->round();
      answer->hash = trainer_->hash();
      answer->image = std::move(image);
      post();
      return true;
    }
    case Request::Kind::evaluate: {
      std::string text;
      try {
        text = trainer_->evaluate(request.evaluate, stop_, &evaluated_);
      } catch (const Error& error) {
        Json told = Json::object();
        told.set("error", error.what());
        text = told.dump();
      }
      Answer* answer = this->answer(Answer::Kind::evaluated);
      if (!answer) return true;
      answer->request = request.evaluate.request;
      answer->text = std::move(text);
      post();
      return true;
    }
    case Request::Kind::apply:
      if (!trainer_->takes_result()) return false;
      answer_apply(request);
      return true;
    case Request::Kind::unstage:
      trainer_->unstage();
      if (options_.record) options_.record->unstaged(order_steps_);
      return true;
    case Request::Kind::load:
      if (!request.flag) return false;
      trainer_->load(request.round, request.image.get(), true, staged_row_);
      if (options_.record) options_.record->loaded(trainer_->round(), trainer_->hash(), request.image, true, order_steps_);
      request.image.reset();
      answer_loaded();
      return true;
    default: return false;
  }
}

void TrainerReplica::handle(Request& request) {
  assert(trainer_ || request.kind == Request::Kind::open);
  take_options();
  if (answer_beside_training(request)) return;
  switch (request.kind) {
    case Request::Kind::open: {
      trainer_ = std::make_unique<ReplicaTrainer>(request.welcome, options_);
      if (options_.record) options_.record->begin(request.welcome);
      std::vector<DataPrint> prints = trainer_->data_prints();
      opened_ = true;
      Answer* answer = this->answer(Answer::Kind::opened);
      if (!answer) return;
      answer->hash = fingerprint_of(prints);
      answer->data_prints = std::move(prints);
      answer->layout = trainer_->block().layout();
      answer->inner_layout = trainer_->inner_layout();
      answer->buckets = trainer_->block().buckets();
      answer->fragments = trainer_->fragments();
      return post();
    }
    case Request::Kind::train: return carry_out(request);
    case Request::Kind::part: return make_part(request);
    case Request::Kind::apply:
    case Request::Kind::serve: return answer_apply(request);
    case Request::Kind::apply_inner: {
      const std::optional<size_t> refused = trainer_->apply_inner(request.inner, request.rows[0]);
      request.inner.payloads.clear();
      Answer* answer = this->answer(Answer::Kind::inner_applied);
      if (!answer) return;
      answer->round = request.inner.round;
      answer->index = request.inner.index;
      answer->refused = refused ? static_cast<int>(*refused) : -1;
      return post();
    }
    case Request::Kind::take: {
      staged_row_ = nullptr;
      const bool ok = trainer_->take(request.take);
      request.take.bytes.reset();
      Answer* answer = this->answer(Answer::Kind::taken);
      if (!answer) return;
      answer->round = request.take.round;
      answer->flag = ok;
      return post();
    }
    case Request::Kind::load:
    case Request::Kind::drop:
      cancel_ = false;
      if (++give_ups_seen_ != give_ups_ || stop_) cancel_ = true;
      staged_row_ = nullptr;
      trainer_->drop();
      if (request.kind == Request::Kind::drop) return options_.record ? options_.record->dropped() : void();
      trainer_->load(request.round, request.image.get(), false, nullptr);
      if (options_.record) options_.record->loaded(trainer_->round(), trainer_->hash(), request.image, false, order_steps_);
      request.image.reset();
      return answer_loaded();
    default: assert(false);
  }
}

void TrainerReplica::answer_apply(Request& request) {
  const bool serves = request.kind == Request::Kind::serve;
  SharedBytes reply;
  bool change = false;
  take_options();
  const std::optional<size_t> refused =
      serves ? trainer_->serve(request.apply, request.rows[0], &reply, &change) : trainer_->apply(request.apply, request.rows[0]);
  request.apply.payloads.clear();
  if (!refused) staged_row_ = nullptr;
  if (serves && !refused) on_step();
  if (options_.record && !serves && !refused) options_.record->applied(trainer_->round(), trainer_->hash(), order_steps_);
  Answer* answer = this->answer(refused ? Answer::Kind::refused : serves ? Answer::Kind::served : Answer::Kind::applied);
  if (!answer) return;
  answer->round = refused ? request.apply.round : trainer_->round();
  answer->request = refused.value_or(0);
  answer->hash = trainer_->hash();
  answer->image = std::move(reply);
  answer->flag = change;
  post();
}

void TrainerReplica::carry_out(Request& request) {
  std::swap(order_, request.train);  // the queue goes on beside it; memory is kept on both sides
  std::swap(order_rows_, request.rows);
  order_number_ = request.order;
  requests_.pop();
  popped_ = true;
  staged_row_ = nullptr;
  order_steps_ = 0;
  if (options_.record) options_.record->train(order_);
  const bool staged = trainer_->train(order_, order_rows_, cancel_, *this, &contribution_);
  if (options_.record) staged ? options_.record->staged(contribution_) : options_.record->given_up(order_steps_);
  order_steps_ = 0;
  if (!staged) return;
  staged_row_ = order_rows_[0];
  if (order_.gradient && contribution_.finite) on_bucket(trainer_->block().buckets().size() - 1);
  Answer* answer = this->answer(Answer::Kind::contribution);
  if (!answer) return;
  answer->order = order_number_;
  std::swap(answer->contribution, contribution_);
  post();
}

bool TrainerReplica::given_up() {
  for (;;) {
    if (cancel_ || stop_) return true;
    Request* request = requests_.front();
    if (!request && trainer_->waits_for_result()) {
      requests_.wait(stop_);
      continue;
    }
    if (!request || !answer_beside_training(*request)) return cancel_;
    requests_.pop();
  }
}

void TrainerReplica::on_step() {
  ++order_steps_;
  steps_.fetch_add(1, std::memory_order_relaxed);
}

void TrainerReplica::make_part(Request& request) {
  const PartOrder order = request.part;
  requests_.pop();  // others may be served meanwhile
  popped_ = true;
  if (!staged_row_) return;  // given up meanwhile
  switch (trainer_->make_part(order, order_rows_, cancel_, *this)) {
    case ReplicaTrainer::Part::made: return on_bucket(static_cast<size_t>(order.pass));
    case ReplicaTrainer::Part::over: return post_order(Answer::Kind::parts_over, 0);
    case ReplicaTrainer::Part::given_up: return;
  }
}

void TrainerReplica::on_bucket(size_t bucket) { post_order(Answer::Kind::bucket, bucket); }

void TrainerReplica::post_order(Answer::Kind kind, size_t bucket) {
  Answer* answer = this->answer(kind);
  if (!answer) return;
  answer->order = order_number_;
  answer->round = order_.round;
  answer->request = bucket;
  post();
}

}  // namespace perigee
