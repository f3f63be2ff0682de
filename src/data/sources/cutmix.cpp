// {"type": "cutmix", "source": {...}, "alpha": 1}: see mixed_source.h.
#include "src/data/mixed_source.h"

namespace perigee {
namespace {

SourcePtr open_cutmix(const Config& config, const std::string& folder) {
  return MixedSource::open(config, folder, MixedSource::Kind::cutmix);
}

constexpr const char* kCutmixPositional[] = {"source"};
constexpr auto kCutmixOptions = mixing_options("1");

}  // namespace

extern const SourceDef source_cutmix;
const SourceDef source_cutmix{.type = "cutmix",
                              .doc =
                                  "Each image of 'source' with a box of another one in it; the target becomes a distribution, by area. "
                                  "Options: alpha (1, of the Beta distribution of areas), probability (1), field (x), target (y)",
                              .schema = {.options = kCutmixOptions, .positional = kCutmixPositional},
                              .open = open_cutmix,
                              .wraps = true};

}  // namespace perigee
