// {"type": "auto_augment", "policy": "cifar10"}: Cubuk et al., "AutoAugment: Learning Augmentation Strategies from Data", 2018. One of 25
// pairs of operations for each image; the tables are the paper's, the operations torchvision's.
#include "src/data/transforms/picture_ops.h"

namespace perigee {
namespace {

using enum PictureOp;

struct AutoAugmentStep {
  PictureOp op;
  uint8_t tenths, level;  // how probable it is, and its magnitude's level of 10
};

constexpr const char* kPolicies[] = {"imagenet", "cifar10", "svhn"};
constexpr AutoAugmentStep kPairs[3][25][2] = {
    {
        {{posterize, 4, 8}, {rotate, 6, 9}},      {{solarize, 6, 5}, {autocontrast, 6, 0}}, {{equalize, 8, 0}, {equalize, 6, 0}},
        {{posterize, 6, 7}, {posterize, 6, 6}},   {{equalize, 4, 0}, {solarize, 2, 4}},     {{equalize, 4, 0}, {rotate, 8, 8}},
        {{solarize, 6, 3}, {equalize, 6, 0}},     {{posterize, 8, 5}, {equalize, 10, 0}},   {{rotate, 2, 3}, {solarize, 6, 8}},
        {{equalize, 6, 0}, {posterize, 4, 6}},    {{rotate, 8, 8}, {saturation, 4, 0}},     {{rotate, 4, 9}, {equalize, 6, 0}},
        {{equalize, 0, 0}, {equalize, 8, 0}},     {{invert, 6, 0}, {equalize, 10, 0}},      {{saturation, 6, 4}, {contrast, 10, 8}},
        {{rotate, 8, 8}, {saturation, 10, 2}},    {{saturation, 8, 8}, {solarize, 8, 7}},   {{sharpness, 4, 7}, {invert, 6, 0}},
        {{shear_x, 6, 5}, {equalize, 10, 0}},     {{saturation, 4, 0}, {equalize, 6, 0}},   {{equalize, 4, 0}, {solarize, 2, 4}},
        {{solarize, 6, 5}, {autocontrast, 6, 0}}, {{invert, 6, 0}, {equalize, 10, 0}},      {{saturation, 6, 4}, {contrast, 10, 8}},
        {{equalize, 8, 0}, {equalize, 6, 0}},
    },
    {
        {{invert, 1, 0}, {contrast, 2, 6}},          {{rotate, 7, 2}, {translate_x, 3, 9}},     {{sharpness, 8, 1}, {sharpness, 9, 3}},
        {{shear_y, 5, 8}, {translate_y, 7, 9}},      {{autocontrast, 5, 0}, {equalize, 9, 0}},  {{shear_y, 2, 7}, {posterize, 3, 7}},
        {{saturation, 4, 3}, {brightness, 6, 7}},    {{sharpness, 3, 9}, {brightness, 7, 9}},   {{equalize, 6, 0}, {equalize, 5, 0}},
        {{contrast, 6, 7}, {sharpness, 6, 5}},       {{saturation, 7, 7}, {translate_x, 5, 8}}, {{equalize, 3, 0}, {autocontrast, 4, 0}},
        {{translate_y, 4, 3}, {sharpness, 2, 6}},    {{brightness, 9, 6}, {saturation, 2, 8}},  {{solarize, 5, 2}, {invert, 0, 0}},
        {{equalize, 2, 0}, {autocontrast, 6, 0}},    {{equalize, 2, 0}, {equalize, 6, 0}},      {{saturation, 9, 9}, {equalize, 6, 0}},
        {{autocontrast, 8, 0}, {solarize, 2, 8}},    {{brightness, 1, 3}, {saturation, 7, 0}},  {{solarize, 4, 5}, {autocontrast, 9, 0}},
        {{translate_y, 9, 9}, {translate_y, 7, 9}},  {{autocontrast, 9, 0}, {solarize, 8, 3}},  {{equalize, 8, 0}, {invert, 1, 0}},
        {{translate_y, 7, 9}, {autocontrast, 9, 0}},
    },
    {
        {{shear_x, 9, 4}, {invert, 2, 0}},       {{shear_y, 9, 8}, {invert, 7, 0}},      {{equalize, 6, 0}, {solarize, 6, 6}},
        {{invert, 9, 0}, {equalize, 6, 0}},      {{equalize, 6, 0}, {rotate, 9, 3}},     {{shear_x, 9, 4}, {autocontrast, 8, 0}},
        {{shear_y, 9, 8}, {invert, 4, 0}},       {{shear_y, 9, 5}, {solarize, 2, 6}},    {{invert, 9, 0}, {autocontrast, 8, 0}},
        {{equalize, 6, 0}, {rotate, 9, 3}},      {{shear_x, 9, 4}, {solarize, 3, 3}},    {{shear_y, 8, 8}, {invert, 7, 0}},
        {{equalize, 9, 0}, {translate_y, 6, 6}}, {{invert, 9, 0}, {equalize, 6, 0}},     {{contrast, 3, 3}, {rotate, 8, 4}},
        {{invert, 8, 0}, {translate_y, 0, 2}},   {{shear_y, 7, 6}, {solarize, 4, 8}},    {{invert, 6, 0}, {rotate, 8, 4}},
        {{shear_y, 3, 7}, {translate_x, 9, 3}},  {{shear_x, 1, 6}, {invert, 6, 0}},      {{solarize, 7, 2}, {translate_y, 6, 7}},
        {{shear_y, 8, 4}, {invert, 8, 0}},       {{shear_x, 7, 9}, {translate_y, 8, 3}}, {{shear_y, 8, 5}, {autocontrast, 7, 0}},
        {{shear_x, 7, 2}, {invert, 1, 0}},
    },
};

class AutoAugment : public Augment {
 public:
  AutoAugment(const Config& config, const Field& field) : Augment(config, field) {
    const std::string policy = config.choice("policy");
    while (policy != kPolicies[policy_]) ++policy_;
  }

 private:
  int choose(Draw& draw, Drawn (&ops)[kMost]) const override {
    int count = 0;
    for (const AutoAugmentStep& step : kPairs[policy_][draw.integer(25)])
      if (draw.uniform() * 10 < static_cast<float>(step.tenths)) ops[count++] = signed_of(step.op, step.level, 10, Space::narrow, draw);
    return count;
  }

  size_t policy_ = 0;
};

std::unique_ptr<Transform> open_auto_augment(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<AutoAugment>(config, source.fields()[field]);
}

constexpr const char* kAutoAugmentPositional[] = {"policy"};
constexpr Option kAutoAugmentOptions[] = {{"policy", "name", "imagenet", "what it was learned on", {}, {"imagenet", "cifar10", "svhn"}},
                                          kAugmentOptions[0],
                                          kAugmentOptions[1],
                                          kAugmentOptions[2]};

}  // namespace

extern const TransformDef transform_auto_augment;
const TransformDef transform_auto_augment{
    .type = "auto_augment",
    .doc =
        "AutoAugment: two operations on each image, by a learned policy. Options: policy ('imagenet', 'cifar10' or 'svhn'), top (1), "
        "interpolation ('nearest' or 'bilinear'), fill (0)",
    .schema = {.options = kAutoAugmentOptions, .positional = kAutoAugmentPositional, .common = &common_transform_schema},
    .open = open_auto_augment,
    .random = true};

}  // namespace perigee
