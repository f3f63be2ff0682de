// A text that is read in three lanes, and the losses of what trains on it.
#pragma once

#include <string>
#include <vector>

#include "src/io/file.h"
#include "src/train/trainer.h"
#include "tests/io/temporary.h"

namespace perigee {

constexpr int64_t kLanes = 3, kLane = 24;  // units of a lane

// text.txt: 5 letters, as carried_reference.py has them.
inline void write_lanes(const TemporaryFolder& folder) {
  std::string text;
  for (int64_t i = 0; i < kLanes * kLane + 1; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 5);
  write_file(folder / "text.txt", as_bytes(text));
}

inline std::vector<double> losses(Trainer& trainer, int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) losses.push_back(trainer.step().loss);
  return losses;
}

}  // namespace perigee
