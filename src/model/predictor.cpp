#include "src/model/predictor.h"
#include "src/tensor/bytes.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "src/model/device/device_choice.h"
#include "src/model/inference.h"

namespace perigee {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostExamples = 1024;
constexpr int64_t kMostQueued = int64_t{1} << 24;
constexpr int64_t kMostWait_us = 60'000'000;
constexpr int kMostLanes = 64;

void check_range(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw Error(ErrorKind::usage, {.where = "predictor",
                                   .what = std::string(what) + " is out of range",
                                   .got = std::to_string(value),
                                   .expected = std::to_string(least) + " to " + std::to_string(most)});
}

bool same_fields(const std::vector<NetworkInput>& a, const std::vector<NetworkInput>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const NetworkInput& x, const NetworkInput& y) { return x.name == y.name && x.type == y.type; });
}

}  // namespace

// A model, and for each lane its plans for 1, 2, 4, ... examples, bound and packed; or graphs on a GPU.
struct Predictor::Serving {
  struct Bound {
    int64_t rows = 0;
    PlanRun* run = nullptr;
    std::vector<int> inputs;  // positions in the plan; -1: it does not read that one
    int output = -1;
  };
  struct LanePlans {
    std::unique_ptr<PlanMemory> memory;
    std::vector<Bound> bound;  // the largest first
    std::unique_ptr<ModelSite> site;
    std::unique_ptr<Inference> inference;  // there; null: the host computes
  };

  Serving(const Model& from, const Json& job, const PredictorOptions& options)
      : model(from.spec()), plans(model, PlanSet::Kind::inference) {
    const Params& theirs = from.params();
    std::memcpy(model.params().block(), theirs.block(), theirs.block_bytes());
    std::span<const std::byte> states = theirs.state_bytes();
    std::copy(states.begin(), states.end(), model.params().state_bytes().begin());
    if (!plans.slices().sliceable && options.max_batch > 1)
      throw Error(ErrorKind::model, {.where = "predictor",
                                     .what = "in this network the examples of a batch depend on each other: " + plans.slices().reason,
                                     .got = "max_batch = " + std::to_string(options.max_batch),
                                     .expected = "1",
                                     .hint = "set max_batch to 1"});
    int64_t largest = 1;
    while (largest * 2 <= options.max_batch) largest *= 2;
    for (int i = 0; i < options.lanes; ++i) {
      LanePlans& lane = lanes.emplace_back();
      lane.site = std::make_unique<ModelSite>(model, job, options.device.empty() ? "cpu" : options.device, "predictor: device", i);
      if (!lane.site->devices().empty()) {
        capture(lane, largest);
        continue;
      }
      lane.memory = std::make_unique<PlanMemory>(plans, model.params(), nullptr);
      for (int64_t rows = largest; rows > 0; rows /= 2) lane.memory->at(rows);  // now its arena is large enough for all
      for (int64_t rows = largest; rows > 0; rows /= 2) lane.bound.push_back(bind(*lane.memory, rows));
    }
  }

  // Each size twice, for there are two buffers.
  void capture(LanePlans& lane, int64_t largest) {
    lane.inference = std::make_unique<Inference>(model, team, false, largest, lane.site->devices());
    size_t row = byte_size(model.output_types().at(0));
    for (const NetworkInput& input : model.spec().inputs) row = std::max(row, byte_size(input.type));
    const std::vector<std::byte> zeros(row * static_cast<size_t>(largest));
    std::vector<std::byte> output(zeros.size());
    const std::vector<const void*> inputs(model.spec().inputs.size(), zeros.data());
    for (int64_t rows = largest; rows > 0; rows /= 2)
      for (int buffer = 0; buffer < 2; ++buffer) lane.inference->run_all(inputs, rows, output.data());
  }

  Bound bind(PlanMemory& memory, int64_t rows) {
    Bound bound{.rows = rows, .run = &memory.at(rows), .inputs = {}, .output = -1};
    for (const NetworkInput& input : model.spec().inputs) bound.inputs.push_back(bound.run->plan().input_index(input.name));
    bound.output = bound.run->output_index("output");
    bound.run->pack();
    return bound;
  }

  Model model;
  PlanSet plans;
  ThreadTeam team{1};  // unused: the device computes
  std::vector<LanePlans> lanes;
  uint64_t number = 0;
  int running = 0;  // batches under way; under the predictor's mutex
};

// A request while it is inside predict(), on the stack of the thread that made it.
struct Predictor::Waiting {
  enum class State : uint8_t { queued, taken, answered, cancelled, failed, leads };
  Request* request = nullptr;
  Clock::time_point deadline = Clock::time_point::max();
  State state = State::queued;
  Waiting *before = nullptr, *after = nullptr;  // in the queue, or in a batch
  Lane* lane = nullptr;                         // handed over
  Clock::time_point fill_until;                 // of a leader
  std::condition_variable changed;
};

// The buffers in which one batch at a time is computed.
struct Predictor::Lane {
  size_t index = 0;
  std::vector<Storage> inputs;         // max_batch rows each
  std::vector<const void*> addresses;  // of these
  Storage output{0};

  void run(Serving& serving, int64_t rows, const void* const* from, const std::vector<NetworkInput>& fields, std::byte* into,
           size_t output_row);
};

Predictor::Predictor(const Model& model, const Json& job, const PredictorOptions& options)
    : options_(options), inputs_(model.spec().inputs), output_(model.output_types().at(0)) {
  check_range("max_batch", options.max_batch, 1, kMostExamples);
  check_range("max_queue", options.max_queue, 0, kMostQueued);
  check_range("fill_wait_us", options.fill_wait_us, 0, kMostWait_us);
  check_range("lanes", options.lanes, 1, kMostLanes);
  for (int i = 0; i < options.lanes; ++i) {
    auto lane = std::make_unique<Lane>();
    lane->index = static_cast<size_t>(i);
    for (const NetworkInput& input : inputs_) lane->inputs.emplace_back(byte_size(input.type) * static_cast<size_t>(options.max_batch));
    for (const Storage& input : lane->inputs) lane->addresses.push_back(input.data());
    lane->output = Storage(byte_size(output_) * static_cast<size_t>(options.max_batch));
    free_.push_back(lane.get());
    lanes_.push_back(std::move(lane));
  }
  swap(model, job);
}

Predictor::~Predictor() = default;

uint64_t Predictor::swap(const Model& model, const Json& job) {
  if (!same_fields(model.spec().inputs, inputs_) || model.output_types().at(0) != output_)
    throw Error(ErrorKind::model, {.where = "predictor",
                                   .what = "the new model has other inputs or another output",
                                   .got = model.output_types().at(0).text(),
                                   .expected = output_.text(),
                                   .hint = "make another predictor for it"});
  const std::lock_guard one(swap_mutex_);
  auto next = std::make_unique<Serving>(model, job, options_);
  std::unique_lock lock(mutex_);
  const uint64_t number = next->number = ++models_;
  std::swap(current_, next);
  if (next) old_is_idle_.wait(lock, [&] { return next->running == 0; });
  return number;  // the model before goes here, outside of every request
}

int64_t Predictor::cancel(uint64_t tag) {
  if (tag == 0) return 0;
  const std::lock_guard lock(mutex_);
  int64_t ended = 0;
  for (Waiting *at = first_, *next = nullptr; at; at = next) {
    next = at->after;
    if (at->request->tag != tag) continue;
    unlink(*at);
    at->state = Waiting::State::cancelled;
    at->changed.notify_one();
    ++ended;
  }
  if (filling_ && filling_->request->tag == tag && filling_->state == Waiting::State::leads) {
    filling_->state = Waiting::State::cancelled;
    filling_->changed.notify_one();
    ++ended;
  }
  return ended;
}

void Predictor::link(Waiting& waiting) {
  waiting.before = last_;
  (last_ ? last_->after : first_) = &waiting;
  last_ = &waiting;
  queued_ += waiting.request->examples;
}

void Predictor::unlink(Waiting& waiting) {
  (waiting.before ? waiting.before->after : first_) = waiting.after;
  (waiting.after ? waiting.after->before : last_) = waiting.before;
  waiting.before = waiting.after = nullptr;
  queued_ -= waiting.request->examples;
}

Predictor::Outcome Predictor::predict(Request& request) {
  Waiting own;
  own.request = &request;
  const bool timed = request.timeout_us > 0 || options_.fill_wait_us > 0;
  const Clock::time_point now = timed ? Clock::now() : Clock::time_point();
  if (request.timeout_us > 0) own.deadline = now + std::chrono::microseconds(std::min(request.timeout_us, int64_t{1} << 50));
  own.fill_until = now + std::chrono::microseconds(options_.fill_wait_us);

  std::unique_lock lock(mutex_);
  Lane* lane = nullptr;
  if (!filling_ && !first_ && !free_.empty()) {
    lane = free_.back();
    free_.pop_back();
  } else {
    if (queued_ + request.examples > options_.max_queue) return Outcome::queue_full;
    link(own);
    if (filling_) {
      // A batch that waits for more must begin before what it waits with is too late.
      if (request.timeout_us > 0) filling_->fill_until = std::min(filling_->fill_until, now + (own.deadline - now) / 2);
      filling_->changed.notify_one();
    }
    const Outcome outcome = wait(lock, own, &lane);
    if (!lane) return outcome;
  }
  if (options_.fill_wait_us > 0 && !filling_) {  // one leader at a time collects; a thread with another lane computes what there is
    fill(lock, own);
    if (own.state == Waiting::State::cancelled) {
      hand_over(*lane);
      return Outcome::cancelled;
    }
  }
  return lead(lock, *lane, own);
}

// Until the request is answered or ended, or *lane is set and it is this thread's turn to compute.
Predictor::Outcome Predictor::wait(std::unique_lock<std::mutex>& lock, Waiting& waiting, Lane** lane) {
  using State = Waiting::State;
  while (waiting.state == State::queued) {
    if (waiting.deadline == Clock::time_point::max()) {
      waiting.changed.wait(lock);
    } else if (waiting.changed.wait_until(lock, waiting.deadline) == std::cv_status::timeout && waiting.state == State::queued) {
      unlink(waiting);
      return Outcome::too_late;
    }
  }
  while (waiting.state == State::taken) waiting.changed.wait(lock);  // computed by another thread
  *lane = waiting.lane;
  if (waiting.state == State::failed) return Outcome::failed;
  return waiting.state == State::cancelled ? Outcome::cancelled : Outcome::answered;
}

// Waits for a full batch, for as long as the options and the deadlines allow.
void Predictor::fill(std::unique_lock<std::mutex>& lock, Waiting& own) {
  if (own.deadline != Clock::time_point::max()) {
    const auto now = Clock::now();
    own.fill_until = std::min(own.fill_until, now + (own.deadline - now) / 2);
  }
  own.state = Waiting::State::leads;
  filling_ = &own;
  while (own.state == Waiting::State::leads && own.request->examples + queued_ < options_.max_batch)
    if (own.changed.wait_until(lock, own.fill_until) == std::cv_status::timeout && Clock::now() >= own.fill_until) break;
  filling_ = nullptr;
}

// Computes a batch: the own request and what waits, in order, as far as it fits.
Predictor::Outcome Predictor::lead(std::unique_lock<std::mutex>& lock, Lane& lane, Waiting& own) {
  own.before = own.after = nullptr;
  Waiting* last = &own;
  int64_t rows = own.request->examples;
  while (first_ && rows + first_->request->examples <= options_.max_batch) {
    Waiting& next = *first_;
    unlink(next);
    next.state = Waiting::State::taken;
    last->after = &next;
    last = &next;
    rows += next.request->examples;
  }
  while (first_ && !filling_ && !free_.empty()) {  // what did not fit; a leader that collects takes it itself
    Lane& other = *free_.back();
    free_.pop_back();
    hand_over(other);
  }
  Serving& serving = *current_;
  ++serving.running;
  lock.unlock();

  char failure[sizeof Request::failure] = "";  // of a device; all requests of the batch get it
  try {
    if (own.after) answer_together(serving, lane, rows, own);
    else lane.run(serving, rows, own.request->inputs, inputs_, own.request->output, byte_size(output_));
  } catch (const std::exception& error) {
    std::strncpy(failure, error.what(), sizeof failure - 1);
  }
  const bool failed = failure[0] != '\0';

  lock.lock();
  if (--serving.running == 0 && &serving != current_.get()) old_is_idle_.notify_one();
  own.request->model = serving.number;
  own.request->batch = rows;
  std::memcpy(own.request->failure, failure, sizeof failure);
  for (Waiting *each = own.after, *next = nullptr; each; each = next) {
    next = each->after;  // the thread goes on as soon as the lock is free, and its Waiting is gone
    each->request->model = serving.number;
    each->request->batch = rows;
    std::memcpy(each->request->failure, failure, sizeof failure);
    each->state = failed ? Waiting::State::failed : Waiting::State::answered;
    each->changed.notify_one();
  }
  hand_over(lane);
  return failed ? Outcome::failed : Outcome::answered;
}

// Several requests: their rows side by side, and the results back.
void Predictor::answer_together(Serving& serving, Lane& lane, int64_t rows, const Waiting& first) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::byte* at = lane.inputs[i].data();
    for (const Waiting* each = &first; each; each = each->after) {
      const size_t bytes = byte_size(inputs_[i].type) * static_cast<size_t>(each->request->examples);
      std::memcpy(at, each->request->inputs[i], bytes);
      at += bytes;
    }
  }
  lane.run(serving, rows, lane.addresses.data(), inputs_, lane.output.data(), byte_size(output_));
  const std::byte* from = lane.output.data();
  for (const Waiting* each = &first; each; each = each->after) {
    const size_t bytes = byte_size(output_) * static_cast<size_t>(each->request->examples);
    std::memcpy(each->request->output, from, bytes);
    from += bytes;
  }
}

// The lane goes to the thread that waits longest, or is free. With the lock.
void Predictor::hand_over(Lane& lane) {
  if (!first_ || filling_) {
    free_.push_back(&lane);
    return;
  }
  Waiting& next = *first_;
  unlink(next);
  next.lane = &lane;
  next.state = Waiting::State::leads;
  next.changed.notify_one();
}

void Predictor::Lane::run(Serving& serving, int64_t rows, const void* const* from, const std::vector<NetworkInput>& fields, std::byte* into,
                          size_t output_row) {
  if (Inference* const there = serving.lanes[index].inference.get()) return there->run_all({from, fields.size()}, rows, into);
  const StepInfo step{};
  for (int64_t done = 0; done < rows;) {
    const Serving::Bound* bound = nullptr;
    for (const Serving::Bound& each : serving.lanes[index].bound)
      if (!bound && each.rows <= rows - done) bound = &each;
    for (size_t i = 0; i < fields.size(); ++i)
      if (bound->inputs[i] >= 0)
        bound->run->set_input(bound->inputs[i],
                              static_cast<const std::byte*>(from[i]) + static_cast<size_t>(done) * byte_size(fields[i].type));
    bound->run->run(nullptr, step);
    const View& output = bound->run->output(bound->output);
    View target = output;
    target.data = into + static_cast<size_t>(done) * output_row;
    int64_t stride = 1;
    for (int d = target.rank - 1; d >= 0; --d) {
      target.strides[d] = stride;
      stride *= target.dims[d];
    }
    copy_view(output, target);
    done += bound->rows;
  }
}

}  // namespace perigee
