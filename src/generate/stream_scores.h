// Scores of a model that looks back by its state alone: each unit is read once, whatever came before.
#pragma once

#include <memory>
#include <vector>

#include "src/generate/next_scores.h"
#include "src/generate/text_model.h"
#include "src/model/steps/step_model.h"

namespace perigee {

class StreamScores final : public NextScores {
 public:
  // Error where StepModel has one. `rows`: texts side by side.
  StreamScores(const Model& model, int64_t rows);

  void begin(std::span<const int64_t> prompt) override;
  void advance(std::span<const int> parents, std::span<const int64_t> units) override;
  void scores(int row, std::span<double> into) const override;

 private:
  StepModel model_;
  CarriedRows state_;
  std::vector<int64_t> units_;  // of each row: what is read next
  const View* output_ = nullptr;
};

// Those of a recurrent model that says what follows each unit; for all others the window is computed again for every unit. `model` and `text`
// must outlive the result.
std::unique_ptr<NextScores> scores_of(Model& model, const TextModel& text, int64_t rows);

}  // namespace perigee
