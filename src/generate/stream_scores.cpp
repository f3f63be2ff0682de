#include "src/generate/stream_scores.h"

#include <algorithm>
#include <cassert>

#include "src/generate/window_scores.h"

namespace perigee {

StreamScores::StreamScores(const Model& model, int64_t rows)
    : model_(model, rows, true), state_(model_.carried(), rows), units_(static_cast<size_t>(rows)) {}

void StreamScores::begin(std::span<const int64_t> prompt) {
  state_.clear();
  for (const int64_t unit : prompt) {
    std::fill(units_.begin(), units_.end(), unit);
    output_ = &model_.step(state_, units_.data());
  }
}

void StreamScores::advance(std::span<const int> parents, std::span<const int64_t> units) {
  const bool own = std::all_of(parents.begin(), parents.end(), [&](const int& parent) { return &parent - parents.data() == parent; });
  if (!own) state_.reorder(parents);
  std::copy(units.begin(), units.end(), units_.begin());
  output_ = &model_.step(state_, units_.data());
}

void StreamScores::scores(int row, std::span<double> into) const {
  assert(output_);
  const View& view = *output_;
  const auto copy = [&]<class T>(const T* from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = from[row * view.strides[0] + static_cast<int64_t>(i) * view.strides[1]];
  };
  if (view.dtype == Dtype::f64) copy(view.as<double>());
  else copy(view.as<float>());
}

std::unique_ptr<NextScores> scores_of(Model& model, const TextModel& text, int64_t rows) {
  if (text.every() && StepModel::is_for(model)) return std::make_unique<StreamScores>(model, rows);
  return std::make_unique<WindowScores>(model, text, rows);
}

}  // namespace perigee
