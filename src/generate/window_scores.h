// Scores of a model that reads a window: for every unit the whole window is computed again.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "src/generate/next_scores.h"
#include "src/generate/text_model.h"
#include "src/model/plans/plan_set.h"

namespace perigee {

class WindowScores final : public NextScores {
 public:
  // Model and text must outlive this. `rows`: texts side by side, which all look at the same memory.
  WindowScores(Model& model, const TextModel& text, int64_t rows, const TextMemory& memory);

  void begin(std::span<const int64_t> prompt) override;
  // Row i goes on from text i: its last units, at most a window. No scores until the next advance().
  void resume(std::vector<std::vector<int64_t>> texts) { last_ = std::move(texts); }
  void advance(std::span<const int> parents, std::span<const int64_t> units) override;
  void scores(int row, std::span<double> into) const override;

 private:
  void compute();
  void keep_scores(int64_t first);

  const TextModel& text_;
  PlanSet plans_;
  PlanMemory memory_;
  int64_t at_once_;  // rows of the plan: one where the network lets rows depend on each other
  PlanRun* run_ = nullptr;
  int input_ = -1, output_ = -1, count_input_ = -1, segments_input_ = -1;
  std::vector<std::vector<int64_t>> looked_at_;  // of each input of the memory: [rows, ...]
  std::vector<std::vector<int64_t>> last_;       // of each row: its last units, at most a window
  std::vector<int64_t> windows_;                 // [rows, window]: what the plan reads
  std::vector<int64_t> counts_, segments_;       // [rows]; [rows, window]: of rows that have room for several sequences
  std::vector<double> scores_;                   // [rows, vocabulary]
};

}  // namespace perigee
