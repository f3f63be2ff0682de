// {"type": "mixup", "source": {...}, "alpha": 0.2}: see mixed_source.h.
#include "src/data/mixed_source.h"

namespace perigee {
namespace {

SourcePtr open_mixup(const Config& config, const std::string& folder) {
  return MixedSource::open(config, folder, MixedSource::Kind::mixup);
}

constexpr const char* kMixupPositional[] = {"source"};
constexpr auto kMixupOptions = mixing_options("0.2");

}  // namespace

extern const SourceDef source_mixup;
const SourceDef source_mixup{.type = "mixup",
                             .doc =
                                 "Each example of 'source' mixed with another one: share times the one and 1 - share times the other, of "
                                 "the field and of the target, which becomes a distribution. Options: alpha (0.2, of the Beta distribution "
                                 "of shares), probability (1), field (x), target (y)",
                             .schema = {.options = kMixupOptions, .positional = kMixupPositional},
                             .open = open_mixup,
                             .wraps = true};

}  // namespace perigee
