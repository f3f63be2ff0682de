// Limits on the gradient before the update: {"type": …, "threshold": 1.0}, after Deeplearning4j's GradientNormalization.
//   value                  each element is cut to [-threshold, threshold]
//   norm                   the whole gradient is scaled down to an L2 norm of at most threshold
//   layer_norm             the same for each layer's gradient;      parameter_norm       for each tensor's
//   renormalize_layer      each layer's gradient is scaled to norm 1; renormalize_parameter  each tensor's
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/block_math.h"
#include "src/core/schema.h"
#include "src/optim/param_window.h"

namespace perigee {

// A stretch of one window over which squares are summed at once.
struct UpdatePiece {
  int window = 0;
  int64_t begin = 0, end = 0;  // elements of the block
};

std::span<const NamedSchema> clip_kinds();

class Clip {
 public:
  // Throws Error(model). Null is none.
  Clip(const Json& description, const std::vector<ParamWindow>& windows, std::span<const UpdatePiece> pieces, const std::string& where);

  double value_limit() const { return kind_ == Kind::value ? threshold_ : 0; }  // 0: none
  bool needs_norms() const { return kind_ != Kind::none && kind_ != Kind::value; }

  // Sums squares of the pieces [first, last) (two-phase form: any threads, disjoint ranges)...
  // A piece that is marked in `quiet`, where that is not empty, is all zeros.
  void measure(size_t first, size_t last, const void* gradient, const BlockMath& math, std::span<const uint8_t> quiet = {});
  // ... then, alone, makes norms and factors of them; `scale` multiplies the gradient.
  void finish(double scale);
  double factor(size_t window) const { return factors_[static_cast<size_t>(groups_[window])]; }
  double global_norm() const { return global_norm_; }
  // For norms that are measured elsewhere: the norm of each of so many groups of windows is cut to `threshold`, or else made 1.
  bool renormalizes() const { return kind_ == Kind::renormalize; }
  double threshold() const { return threshold_; }
  // The threshold of another description with the same kind. False: it has another one.
  bool take_threshold(const Clip& other);
  int group(size_t window) const { return groups_[window]; }
  int groups() const { return static_cast<int>(factors_.size()); }

 private:
  double sum_of_window(size_t first, size_t last) const;  // of these pieces, all of one window

  enum class Kind { none, value, norm, group_norm, renormalize };

  Kind kind_ = Kind::none;
  double threshold_ = 1.0;
  double global_norm_ = 0;
  std::span<const UpdatePiece> pieces_;
  std::vector<int> groups_;  // by window
  std::vector<bool> trainable_;
  std::vector<double> sums_;     // by piece
  std::vector<double> factors_;  // by group
};

}  // namespace perigee
