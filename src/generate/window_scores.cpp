#include "src/generate/window_scores.h"

#include <algorithm>
#include <cassert>

namespace perigee {

WindowScores::WindowScores(Model& model, const TextModel& text, int64_t rows, const TextMemory& memory)
    : text_(text),
      plans_(model, PlanSet::Kind::inference, Backend::cpu, nullptr, {kUnlinkedOutput}),
      memory_(plans_, model.params(), nullptr),
      at_once_(plans_.slices().sliceable ? rows : 1),
      last_(static_cast<size_t>(rows)),
      windows_(static_cast<size_t>(rows * text.window())),
      counts_(static_cast<size_t>(rows)),
      segments_(text.packed() ? windows_.size() : 0),
      scores_(static_cast<size_t>(rows * text.vocabulary_size())) {
  run_ = &memory_.at(at_once_);
  run_->pack();
  output_ = run_->output_index(std::string("layer:") + kUnlinkedOutput);
  input_ = run_->plan().input_index(text.stepped());
  if (!text.count().empty()) count_input_ = run_->plan().input_index(text.count());
  if (text.packed()) segments_input_ = run_->plan().input_index(text.segments());
  for (const auto& [name, numbers] : memory) {
    looked_at_.push_back(repeated(numbers, at_once_));
    if (const int input = run_->plan().input_index(name); input >= 0) run_->set_input(input, looked_at_.back().data());
  }
}

void WindowScores::begin(std::span<const int64_t> prompt) {
  const size_t kept = std::min(prompt.size(), static_cast<size_t>(text_.context()));
  for (auto& row : last_) row.assign(prompt.end() - static_cast<ptrdiff_t>(kept), prompt.end());
  compute();
}

void WindowScores::advance(std::span<const int> parents, std::span<const int64_t> units) {
  assert(parents.size() == last_.size() && units.size() == last_.size());
  const bool own = std::all_of(parents.begin(), parents.end(), [&](const int& parent) { return &parent - parents.data() == parent; });
  if (!own) {
    const std::vector<std::vector<int64_t>> before = last_;
    for (size_t i = 0; i < last_.size(); ++i) last_[i] = before[static_cast<size_t>(parents[i])];
  }
  for (size_t i = 0; i < last_.size(); ++i) {
    if (last_[i].size() == static_cast<size_t>(text_.context())) last_[i].erase(last_[i].begin());
    last_[i].push_back(units[i]);
  }
  compute();
}

// A text that is shorter than the window stands at its end, or at its beginning where each position reads only those before it.
void WindowScores::compute() {
  std::fill(windows_.begin(), windows_.end(), text_.filler());
  for (size_t i = 0; i < last_.size(); ++i) {
    const auto window = static_cast<size_t>(text_.window()), at = text_.every() ? 0 : window - last_[i].size();
    std::copy(last_[i].begin(), last_[i].end(), windows_.begin() + static_cast<ptrdiff_t>(i * window + at));
    counts_[i] = static_cast<int64_t>(last_[i].size());
    for (size_t step = 0; text_.packed() && step < window; ++step) segments_[i * window + step] = step < last_[i].size() ? 1 : 0;
  }
  for (int64_t first = 0; first < static_cast<int64_t>(last_.size()); first += at_once_) {
    if (input_ >= 0) run_->set_input(input_, windows_.data() + first * text_.window());
    if (count_input_ >= 0) run_->set_input(count_input_, counts_.data() + first);
    if (segments_input_ >= 0) run_->set_input(segments_input_, segments_.data() + first * text_.window());
    run_->run(nullptr, {});
    keep_scores(first);
  }
}

// Those of the plan's rows, which are rows `first` and on.
void WindowScores::keep_scores(int64_t first) {
  const View& view = run_->output(output_);
  const auto units = static_cast<size_t>(text_.vocabulary_size());
  const auto copy = [&]<class T>(const T* from) {
    for (int64_t row = 0; row < at_once_; ++row) {
      const auto text = static_cast<size_t>(first + row);
      int64_t at = row * view.strides[0];
      if (text_.every()) at += (static_cast<int64_t>(last_[text].size()) - 1) * view.strides[2];
      for (size_t i = 0; i < units; ++i) scores_[text * units + i] = from[at + static_cast<int64_t>(i) * view.strides[1]];
    }
  };
  if (view.dtype == Dtype::f64) copy(view.as<double>());
  else copy(view.as<float>());
}

void WindowScores::scores(int row, std::span<double> into) const {
  std::copy_n(scores_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(row) * into.size()), into.size(), into.begin());
}

}  // namespace perigee
