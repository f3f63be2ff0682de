// The factor of the loss's gradient where gradients are stored in f16, whose smallest number is 6e-8: dynamic loss scaling after
// Micikevicius et al. 2018 (arXiv:1710.03740), with the numbers of PyTorch's GradScaler. One rule for host and device.
#pragma once

#include <cstdint>

namespace perigee {

struct LossScale {
  static constexpr int32_t kGrowAfter = 2000;  // finite gradients in a row
  static constexpr int32_t kMostBad = 64;      // gradients in a row that are not finite: then it is not the scale's fault

  float scale = 65536;
  int32_t dynamic = 1;  // 0: the scale stays what it is
  int32_t good = 0;     // finite gradients since the scale last changed
  int32_t bad = 0;      // gradients in a row that were not
  int64_t skipped = 0;  // steps that changed nothing since the run began

  constexpr bool hopeless() const { return bad >= kMostBad; }

  constexpr void finite() {
    bad = 0;
    if (!dynamic || ++good < kGrowAfter) return;
    good = 0;
    if (scale < 0x1p126f) scale *= 2;
  }

  constexpr void overflowed() {
    ++bad;
    good = 0;
    if (dynamic) scale /= 2;
  }
};

}  // namespace perigee
