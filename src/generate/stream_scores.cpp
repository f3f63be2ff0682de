#include "src/generate/stream_scores.h"

#include <algorithm>
#include <cassert>

namespace perigee {

StreamScores::StreamScores(Model& model, const TextModel& text, int64_t rows, const TextMemory& memory)
    : whole_(model),
      text_(text),
      model_(model, rows, true),
      state_(model_.carried(), rows),
      memory_(memory),
      units_(static_cast<size_t>(rows)) {
  if (model_.memory().empty()) return;
  std::vector<std::vector<int64_t>> given;
  std::vector<const void*> all;
  for (const NetworkInput& input : model_.memory()) given.push_back(repeated(memory_.at(input.name), rows));
  for (const std::vector<int64_t>& each : given) all.push_back(each.data());
  model_.keep(all, &kept_);
}

void StreamScores::step() {
  output_ = &model_.step(state_, units_.data(), kept_);
  for (size_t row = 0; row < read_.size(); ++row) read_[row].push_back(units_[row]);
}

// The windows are those of the rows' last units, of which there are as many as a window has.
void StreamScores::move_window() {
  windows_ = std::make_unique<WindowScores>(whole_, text_, model_.rows(), memory_);
  windows_->resume(std::move(read_));
}

void StreamScores::begin(std::span<const int64_t> prompt) {
  state_.clear();
  windows_.reset();
  const bool ends = model_.most_steps() > 0;
  read_.assign(ends ? units_.size() : 0, {});
  if (ends && static_cast<int64_t>(prompt.size()) > model_.most_steps()) {
    windows_ = std::make_unique<WindowScores>(whole_, text_, model_.rows(), memory_);
    return windows_->begin(prompt);
  }
  for (const int64_t unit : prompt) {
    std::fill(units_.begin(), units_.end(), unit);
    step();
  }
}

void StreamScores::advance(std::span<const int> parents, std::span<const int64_t> units) {
  if (!windows_ && !read_.empty() && static_cast<int64_t>(read_[0].size()) == model_.most_steps()) move_window();
  if (windows_) return windows_->advance(parents, units);
  const bool own = std::all_of(parents.begin(), parents.end(), [&](const int& parent) { return &parent - parents.data() == parent; });
  if (!own) {
    state_.reorder(parents);
    const auto before = read_;
    for (size_t row = 0; row < read_.size(); ++row) read_[row] = before[static_cast<size_t>(parents[row])];
  }
  std::copy(units.begin(), units.end(), units_.begin());
  step();
}

void StreamScores::scores(int row, std::span<double> into) const {
  if (windows_) return windows_->scores(row, into);
  assert(output_);
  const View& view = *output_;
  const auto copy = [&]<class T>(const T* from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = from[row * view.strides[0] + static_cast<int64_t>(i) * view.strides[1]];
  };
  if (view.dtype == Dtype::f64) copy(view.as<double>());
  else copy(view.as<float>());
}

std::unique_ptr<NextScores> scores_of(Model& model, const TextModel& text, int64_t rows, const TextMemory& memory) {
  if (text.every() && !text.packed() && StepModel::is_for(model)) return std::make_unique<StreamScores>(model, text, rows, memory);
  return std::make_unique<WindowScores>(model, text, rows, memory);
}

}  // namespace perigee
