// {"type": "trivial_augment"}: Müller and Hutter, "TrivialAugment: Tuning-free yet state-of-the-art data augmentation", 2021, the wide
// space of torchvision.
#include "src/data/transforms/picture_ops.h"

namespace perigee {
namespace {

class TrivialAugment : public Augment {
 public:
  TrivialAugment(const Config& config, const Field& field) : Augment(config, field), levels_(config.integer("levels")) {}

 private:
  int choose(Draw& draw, Drawn (&ops)[kMost]) const override {
    // All but the last one, invert.
    const auto op = static_cast<PictureOp>(draw.integer(static_cast<int64_t>(PictureOp::invert)));
    const int64_t level = draw.integer(levels_);
    ops[0] = signed_of(op, level, levels_, Space::wide, draw);
    return 1;
  }

  int64_t levels_;
};

std::unique_ptr<Transform> open_trivial_augment(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<TrivialAugment>(config, source.fields()[field]);
}

constexpr Option kTrivialAugmentOptions[] = {
    {"levels", "integer", "31", "of strength", {2, 1001}}, kAugmentOptions[0], kAugmentOptions[1], kAugmentOptions[2]};

}  // namespace

extern const TransformDef transform_trivial_augment;
const TransformDef transform_trivial_augment{
    .type = "trivial_augment",
    .doc =
        "TrivialAugment: one operation of any strength on each image. Options: levels (31), top (1), interpolation ('nearest' or "
        "'bilinear'), fill (0)",
    .schema = {.options = kTrivialAugmentOptions, .common = &common_transform_schema},
    .open = open_trivial_augment,
    .random = true};

}  // namespace perigee
