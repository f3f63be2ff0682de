// {"type": "spec_augment", "rows": 5, "steps": 10}: bands of rows and of steps become `fill` (Park et al. 2019, without warping).
#include <algorithm>
#include <cmath>

#include "src/data/sound/sequence.h"

namespace perigee {
namespace {

class SpecAugment : public SequenceTransform {
 public:
  SpecAugment(const Config& config, const DataSource& source, size_t field)
      : SequenceTransform(config, source, field),
        widest_{config.integer("rows"), config.integer("steps")},
        masks_{config.integer("row_masks"), config.integer("step_masks")},
        fill_(static_cast<float>(config.number("fill"))) {}

 protected:
  int64_t change(const float* in, float* out, int64_t there, Draw& draw) const override {
    std::copy_n(in, elements(), out);
    for (int axis = 0; axis < 2; ++axis)
      for (int64_t mask = 0; mask < masks_[axis]; ++mask) {
        const int64_t size = axis == 0 ? rows_ : there;
        const int64_t width = draw.integer(std::min(widest_[axis], size) + 1), first = draw.integer(size - width + 1);
        for (int64_t i = first; i < first + width; ++i)
          if (axis == 0) std::fill_n(out + i * steps_, there, fill_);
          else
            for (int64_t row = 0; row < rows_; ++row) out[row * steps_ + i] = fill_;
      }
    return there;
  }

 private:
  int64_t widest_[2], masks_[2];
  float fill_;
};

constexpr const char* kSpecAugmentPositional[] = {"rows"};
constexpr Option kSpecAugmentOptions[] = {
    {"rows", "integer", "8", "widest band of rows, which are frequencies or coefficients", {0, 100000}},
    {"steps", "integer", "20", "longest band of steps", {0, 8388607}},
    {"row_masks", "integer", "1", "bands of rows", {0, 100}},
    {"step_masks", "integer", "1", "bands of steps", {0, 100}},
    {"fill", "number", "0", "what stands there then"}};

}  // namespace

extern const TransformDef transform_spec_augment;
const TransformDef transform_spec_augment{
    .type = "spec_augment",
    .doc =
        "Hides bands of rows and of steps at random (SpecAugment). Options: rows (8), steps (20), row_masks (1), step_masks (1), fill (0)",
    .schema = {.options = kSpecAugmentOptions, .positional = kSpecAugmentPositional, .common = &common_transform_schema},
    .open = open_sequence<SpecAugment>,
    .random = true};

}  // namespace perigee
