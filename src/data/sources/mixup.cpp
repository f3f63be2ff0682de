// {"type": "mixup", "source": {...}, "alpha": 0.2}: see mixed_source.h.
#include "src/data/mixed_source.h"

namespace perigee {
namespace {

SourcePtr open(const Config& config, const std::string& folder) { return MixedSource::open(config, folder, MixedSource::Kind::mixup); }

constexpr const char* kPositional[] = {"source"};
constexpr Option kOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                               {"alpha", "number", "0.2", "of the Beta distribution that shares are drawn from", {1e-3, 1e3}},
                               {"probability", "number", "1", "share of the examples that are mixed", {0, 1}},
                               {"field", "string", "x", "the numbers that are mixed"},
                               {"target", "string", "y", "the label, or numbers that are mixed as well"}};

}  // namespace

extern const SourceDef source_mixup;
const SourceDef source_mixup{.type = "mixup",
                             .doc =
                                 "Each example of 'source' mixed with another one: share times the one and 1 - share times the other, of "
                                 "the field and of the target, which becomes a distribution. Options: alpha (0.2, of the Beta distribution "
                                 "of shares), probability (1), field (x), target (y)",
                             .schema = {.options = kOptions, .positional = kPositional},
                             .open = open,
                             .wraps = true};

}  // namespace perigee
