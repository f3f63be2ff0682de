// One thread of a training: its windows, and how the rows move by them.
#pragma once

#include <vector>

#include "src/vectors/vector_training.h"
#include "src/vectors/window_reader.h"

namespace perigee {

class VectorWorker {
 public:
  static constexpr int64_t kRound = 64;  // windows between two meetings of threads

  VectorWorker(const VectorTraining& training, const VectorOptions& options, const Sequences& sequences);

  void open(uint64_t epoch, int64_t part, float rate = 0) { reader_.open(epoch, part, rate), ready_ = false; }
  // Trains on the next window of the part, at once; false at its end.
  bool step();

  // For threads that wait for each other: collects what up to kRound windows would change, and changes nothing. False at the part's end.
  bool collect();
  // Changes the rows whose number is `rank` of `size`, and no others.
  void apply(int rank, int size) const;
  void begin_round() { changes_.clear(), used_ = 0, collected_ = 0; }

  // The part once more for a document that is no row of the training: `row` moves, the rest stays.
  void infer(float* row);

  int64_t take_read() { return reader_.take_read(); }
  float rate() const { return reader_.rate(); }
  // The sum over pairs that were looked at since the last call, and how many these were.
  struct Loss {
    double sum = 0;
    int64_t pairs = 0;
    double mean() const;  // not a number: none was looked at
  };
  Loss take_loss();

 private:
  struct Change {
    int64_t row;  // of the inputs; from their number on, of the outputs
    size_t at;    // in values_
  };
  bool next(PairWindow*& window);
  void look_ahead(const PairWindow& window) const;
  void apply_now(const PairWindow& window);
  void collect(const PairWindow& window);
  void gather(const PairWindow& window, float* joined);
  float run(const PairWindow& window, float* input_changes, float* output_changes);
  float* room(int64_t rows);

  const VectorTraining& training_;
  const VectorOptions options_;
  const PairLoops& loops_;
  const int64_t width_;
  WindowReader reader_;
  PairWindow windows_[2];
  int ahead_ = 0;
  bool ready_ = false;
  std::vector<float> joined_, moved_, scratch_, values_;
  std::vector<float*> input_rows_, output_rows_;
  std::vector<const float*> parts_;
  std::vector<Change> changes_;
  size_t used_ = 0;
  int64_t collected_ = 0, steps_ = 0;
  Loss loss_;
};

}  // namespace perigee
