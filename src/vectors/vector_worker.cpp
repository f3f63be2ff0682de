#include "src/vectors/vector_worker.h"

#include <limits>
#include <utility>

namespace perigee {
namespace {

constexpr int64_t kLossEvery = 64;  // windows

}  // namespace

VectorWorker::VectorWorker(const VectorTraining& training, const VectorOptions& options, const Sequences& sequences)
    : training_(training),
      options_(options),
      loops_(training.loops_),
      width_(training.inputs_.width),
      reader_({options_, sequences, training.elements_, training.noise_, training.tree_, training.keep_, training.tree_row_}),
      joined_(static_cast<size_t>(kMaxPairInputs * width_)),
      moved_(static_cast<size_t>(kMaxPairInputs * width_)),
      scratch_(static_cast<size_t>(pair_scratch(kMaxPairInputs, kMaxPairOutputs, width_))),
      input_rows_(static_cast<size_t>(kMaxPairInputs)),
      output_rows_(static_cast<size_t>(kMaxPairOutputs)) {}

// The rows of the window after the next one are fetched meanwhile.
bool VectorWorker::next(PairWindow*& window) {
  if (!ready_ && !reader_.next(windows_[ahead_])) return false;
  window = &windows_[ahead_];
  ahead_ ^= 1;
  ready_ = reader_.next(windows_[ahead_]);
  if (ready_) look_ahead(windows_[ahead_]);
  return true;
}

void VectorWorker::look_ahead(const PairWindow& window) const {
  const auto fetch = [&](const float* row) {
    for (int64_t i = 0; i < width_; i += 16) __builtin_prefetch(row + i);
  };
  for (int64_t i = 0; i < window.output_count; ++i) fetch(training_.outputs_.row(window.outputs[i]));
  if (window.input_count > 0 && !training_.has_subwords()) fetch(training_.inputs_.row(window.inputs[window.input_count - 1]));
}

// The inputs as rows in memory: they themselves, the means of their subwords, or the mean of all.
void VectorWorker::gather(const PairWindow& window, float* joined) {
  const VectorRows& rows = training_.inputs_;
  const auto take = [&](int64_t row) { parts_.push_back(rows.row(row)); };
  const auto sum = [&](float factor, float* out) { loops_.sum(parts_.data(), static_cast<int64_t>(parts_.size()), width_, factor, out); };
  parts_.clear();
  if (options_.joins_inputs()) {
    for (int64_t i = 0; i < window.input_count; ++i) training_.each_row(window.inputs[i], take);
    sum(options_.mean ? 1 / static_cast<float>(parts_.size()) : 1, joined);
    input_rows_[0] = joined;
    return;
  }
  for (int64_t i = 0; i < window.input_count; ++i) {
    parts_.clear();
    training_.each_row(window.inputs[i], take);
    input_rows_[static_cast<size_t>(i)] = parts_.size() == 1 ? rows.row(window.inputs[i]) : joined + i * width_;
    if (parts_.size() > 1) sum(1 / static_cast<float>(parts_.size()), joined + i * width_);
  }
}

float VectorWorker::run(const PairWindow& window, float* input_changes, float* output_changes) {
  for (int64_t i = 0; i < window.output_count; ++i) output_rows_[static_cast<size_t>(i)] = training_.outputs_.row(window.outputs[i]);
  const PairStep step{.inputs = input_rows_.data(),
                      .input_count = options_.joins_inputs() ? 1 : window.input_count,
                      .outputs = output_rows_.data(),
                      .output_count = window.output_count,
                      .labels = window.labels,
                      .rate = window.rate,
                      .width = width_,
                      .input_changes = input_changes,
                      .output_changes = output_changes};
  const bool looks = steps_++ % kLossEvery == 0;
  const float loss = loops_.step(step, looks, scratch_.data());
  if (looks) loss_.sum += loss, loss_.pairs += step.input_count * step.output_count;
  return loss;
}

// A row of which a mean was made moves as the mean does, as in word2vec's program.
void VectorWorker::apply_now(const PairWindow& window) {
  const bool joins = options_.joins_inputs();
  gather(window, joined_.data());
  if (!joins && !training_.has_subwords()) {
    run(window, nullptr, nullptr);
    return;
  }
  run(window, moved_.data(), nullptr);
  for (int64_t i = 0; i < window.input_count; ++i)
    training_.each_row(window.inputs[i], [&](int64_t row) {
      float* const one[] = {training_.inputs_.row(row)};
      loops_.add(one, 1, width_, 1, moved_.data() + (joins ? 0 : i * width_));
    });
}

bool VectorWorker::step() {
  PairWindow* window = nullptr;
  if (!next(window)) return false;
  apply_now(*window);
  return true;
}

float* VectorWorker::room(int64_t rows) {
  const size_t wanted = used_ + static_cast<size_t>(rows * width_);
  if (values_.size() < wanted) values_.resize(wanted * 2);
  float* const place = values_.data() + used_;
  used_ = wanted;
  return place;
}

void VectorWorker::collect(const PairWindow& window) {
  const bool joins = options_.joins_inputs();
  const int64_t moving = joins ? 1 : window.input_count;
  const size_t begin = used_;
  float* const changes = room(moving + window.output_count);
  gather(window, joined_.data());
  run(window, changes, changes + moving * width_);
  for (int64_t i = 0; i < window.input_count; ++i)
    training_.each_row(window.inputs[i], [&](int64_t row) {
      changes_.push_back({row, begin + static_cast<size_t>((joins ? 0 : i) * width_)});
    });
  for (int64_t i = 0; i < window.output_count; ++i)
    changes_.push_back({training_.inputs_.rows + window.outputs[i], begin + static_cast<size_t>((moving + i) * width_)});
}

bool VectorWorker::collect() {
  PairWindow* window = nullptr;
  for (; collected_ < kRound; ++collected_) {
    if (!next(window)) return false;
    collect(*window);
  }
  return true;
}

void VectorWorker::apply(int rank, int size) const {
  for (const Change& change : changes_) {
    if (change.row % size != rank) continue;
    const int64_t output = change.row - training_.inputs_.rows;
    float* const row[] = {output < 0 ? training_.inputs_.row(change.row) : training_.outputs_.row(output)};
    loops_.add(row, 1, width_, 1, values_.data() + change.at);
  }
}

void VectorWorker::infer(float* row) {
  const int64_t document = training_.elements_.size();
  PairWindow* window = nullptr;
  while (next(window)) {
    parts_.clear();
    for (int64_t i = 0; i < window->input_count; ++i)
      if (window->inputs[i] == document) parts_.push_back(row);
      else if (options_.joins_inputs())
        training_.each_row(window->inputs[i], [&](int64_t own) { parts_.push_back(training_.inputs_.row(own)); });
    loops_.sum(parts_.data(), static_cast<int64_t>(parts_.size()), width_,
               options_.joins_inputs() && options_.mean ? 1 / static_cast<float>(parts_.size()) : 1, joined_.data());
    input_rows_[0] = joined_.data();
    window->input_count = 1;
    used_ = 0;
    run(*window, moved_.data(), room(window->output_count));
    loops_.add(&row, 1, width_, 1, moved_.data());
  }
}

VectorWorker::Loss VectorWorker::take_loss() { return std::exchange(loss_, {}); }

double VectorWorker::Loss::mean() const { return pairs > 0 ? sum / static_cast<double>(pairs) : std::numeric_limits<double>::quiet_NaN(); }

}  // namespace perigee
