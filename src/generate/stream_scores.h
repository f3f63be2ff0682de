// Scores of a model that reads a text unit by unit: each is read once, whatever came before. A model that looks no further back than its window
// reads so until the window is full; then the window moves on with every unit, and is computed again.
#pragma once

#include <memory>
#include <vector>

#include "src/generate/next_scores.h"
#include "src/generate/text_model.h"
#include "src/generate/window_scores.h"
#include "src/model/steps/step_model.h"

namespace perigee {

class StreamScores final : public NextScores {
 public:
  // Error where StepModel has one. Model and text must outlive this. `rows`: texts side by side, which all look at the same memory: it is encoded
  // once.
  StreamScores(Model& model, const TextModel& text, int64_t rows, const TextMemory& memory);

  void begin(std::span<const int64_t> prompt) override;
  void advance(std::span<const int> parents, std::span<const int64_t> units) override;
  void scores(int row, std::span<double> into) const override;

 private:
  void step();
  void move_window();

  Model& whole_;
  const TextModel& text_;
  StepModel model_;
  CarriedRows state_;
  TextMemory memory_;
  std::vector<Storage> kept_;  // what steps need of it
  // The units that each row has read, where the model looks no further than its window. Once that is full, `windows_` goes on.
  std::vector<std::vector<int64_t>> read_;
  std::unique_ptr<WindowScores> windows_;
  std::vector<int64_t> units_;  // of each row: what is read next
  const View* output_ = nullptr;
};

// Those of a model that says what follows each unit and reads step by step; for all others the window is computed again for every unit. `model` and `text`
// must outlive the result.
std::unique_ptr<NextScores> scores_of(Model& model, const TextModel& text, int64_t rows, const TextMemory& memory = {});

}  // namespace perigee
