#include "src/model/metrics/ngram_figure.h"

namespace perigee {
namespace {

constexpr Option kChrfOptions[] = {kBeamsOption};

}  // namespace

extern const EvaluationDef evaluation_chrf;
const EvaluationDef evaluation_chrf{
    .name = "chrf",
    .doc =
        "chrF2 of all sequences together, 0 to 100, as sacrebleu gives it: n-grams of up to 6 characters of the labels' text. Option beams",
    .schema = {.options = kChrfOptions},
    .make = [](const Config& options, const EvaluationTask& task) -> std::unique_ptr<Evaluation> {
      return std::make_unique<NgramFigure>("chrf", NgramsOf::characters, options.integer("beams"), task);
    }};

}  // namespace perigee
