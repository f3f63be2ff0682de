// Objects from the outputs of a network that was trained with the loss yolo2.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/view.h"
#include "src/core/config.h"

namespace perigee {

// In cells of the grid, from its upper left corner.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};
double intersection_over_union(const Box& a, const Box& b);

struct Detection {
  Box box;
  int64_t kind = 0;  // its class, from 0
  double score = 0;  // confidence times the probability of the class
};

// Width and height of each box of a cell: the option "boxes" of the loss and of the evaluation detection. Error(model).
std::vector<std::array<double, 2>> read_grid_boxes(const Config& options);

// The boxes that example `example` of `output` [N, B * (5 + classes), H, W] (f32 or f64, contiguous) has with a score of at least `threshold`, best
// first. A box that overlaps a better one of its class by more than `overlap` is left out (non-maximum suppression). Outputs that are no numbers
// have none.
std::vector<Detection> grid_detections(const View& output, int64_t example, const std::vector<std::array<double, 2>>& boxes,
                                       double threshold, double overlap);

}  // namespace perigee
