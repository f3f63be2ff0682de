// Weights for resizing and blurring, and the loop that applies them.
#pragma once

#include <vector>

#include "kernels/picture_loops.h"

namespace perigee {

// Their memory is used again by the next call.
class ResampleTaps {
 public:
  // `to` results over the part [from, from + length) of `whole` elements: torchvision's and Pillow's antialiased bilinear weights.
  const Taps& resize(double from, double length, int64_t whole, int64_t to);
  // As many results as elements: torchvision's gaussian_blur with a kernel of 2 * reach + 1, mirrored at the ends.
  const Taps& gauss(double deviation, int64_t reach, int64_t length);

 private:
  void reserve(int64_t to, int64_t most);
  void share();

  std::vector<int32_t> first_, count_;
  std::vector<float> weights_;
  std::vector<int16_t> whole_;  // weights in 1/32768
  std::vector<double> shares_;
  Taps view_;
};

void resample(ResampleCall call, bool bytes);  // with scratch memory of the thread; `bytes`: from bytes, else floats

}  // namespace perigee
