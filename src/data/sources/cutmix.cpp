// {"type": "cutmix", "source": {...}, "alpha": 1}: see mixed_source.h.
#include "src/data/mixed_source.h"

namespace perigee {
namespace {

SourcePtr open(const Config& config, const std::string& folder) { return MixedSource::open(config, folder, MixedSource::Kind::cutmix); }

constexpr const char* kPositional[] = {"source"};
constexpr Option kOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                               {"alpha", "number", "1", "of the Beta distribution that shares are drawn from", {1e-3, 1e3}},
                               {"probability", "number", "1", "share of the examples that are mixed", {0, 1}},
                               {"field", "string", "x", "the numbers that are mixed"},
                               {"target", "string", "y", "the label, or numbers that are mixed as well"}};

}  // namespace

extern const SourceDef source_cutmix;
const SourceDef source_cutmix{.type = "cutmix",
                              .doc =
                                  "Each image of 'source' with a box of another one in it; the target becomes a distribution, by area. "
                                  "Options: alpha (1, of the Beta distribution of areas), probability (1), field (x), target (y)",
                              .schema = {.options = kOptions, .positional = kPositional},
                              .open = open,
                              .wraps = true};

}  // namespace perigee
