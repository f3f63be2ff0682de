// {"type": "rand_augment", "operations": 2, "magnitude": 9}: Cubuk et al., "RandAugment: Practical automated data augmentation with a
// reduced search space", 2019, with torchvision's table of operations.
#include "src/data/transforms/picture_ops.h"

namespace perigee {
namespace {

class RandAugment : public Augment {
 public:
  RandAugment(const Config& config, const Field& field)
      : Augment(config, field),
        count_(static_cast<int>(config.integer("operations"))),
        level_(config.integer("magnitude")),
        levels_(config.integer("levels")) {
    if (level_ >= levels_) config.fail("magnitude", "is no level", std::to_string(level_), "less than levels = " + std::to_string(levels_));
  }

 private:
  int choose(Draw& draw, Drawn (&ops)[kMost]) const override {
    // All but the last one, invert.
    for (int i = 0; i < count_; ++i)
      ops[i] =
          signed_of(static_cast<PictureOp>(draw.integer(static_cast<int64_t>(PictureOp::invert))), level_, levels_, Space::narrow, draw);
    return count_;
  }

  int count_;
  int64_t level_, levels_;
};

std::unique_ptr<Transform> open_rand_augment(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<RandAugment>(config, source.fields()[field]);
}

constexpr const char* kRandAugmentPositional[] = {"operations", "magnitude"};
constexpr Option kRandAugmentOptions[] = {{"operations", "integer", "2", "how many, one after the other", {0, Augment::kMost}},
                                          {"magnitude", "integer", "9", "how strong they are, of `levels`", {0, 1000}},
                                          {"levels", "integer", "31", "how many there are", {2, 1001}},
                                          kAugmentOptions[0],
                                          kAugmentOptions[1],
                                          kAugmentOptions[2]};

}  // namespace

extern const TransformDef transform_rand_augment;
const TransformDef transform_rand_augment{
    .type = "rand_augment",
    .doc =
        "RandAugment: some operations on each image, of one strength. Options: operations (2), magnitude (9), levels (31), top (1), "
        "interpolation ('nearest' or 'bilinear'), fill (0)",
    .schema = {.options = kRandAugmentOptions, .positional = kRandAugmentPositional, .common = &common_transform_schema},
    .open = open_rand_augment,
    .random = true};

}  // namespace perigee
