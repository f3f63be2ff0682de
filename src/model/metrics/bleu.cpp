#include "src/model/metrics/ngram_figure.h"

namespace perigee {
namespace {

constexpr Option kBleuOptions[] = {
    kBeamsOption,
    {"tokenize", "name", "13a", "how punctuation is parted from words: as mteval-v13a does, or not at all", {}, {"13a", "none"}}};

}  // namespace

extern const EvaluationDef evaluation_bleu;
const EvaluationDef evaluation_bleu{
    .name = "bleu",
    .doc =
        "BLEU of all sequences together, 0 to 100, as sacrebleu gives it: n-grams of up to 4 words of the labels' text (names, or numbers "
        "where they have none). Options beams, tokenize",
    .schema = {.options = kBleuOptions},
    .make = [](const Config& options, const EvaluationTask& task) -> std::unique_ptr<Evaluation> {
      const NgramsOf of = options.choice("tokenize") == "13a" ? NgramsOf::words_13a : NgramsOf::words;
      return std::make_unique<NgramFigure>("bleu", of, options.integer("beams"), task);
    }};

}  // namespace perigee
