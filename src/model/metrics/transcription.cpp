// Error rates of sequences of labels: how much has to be changed to get what was wanted, over how much was wanted.
#include "src/model/metrics/rows.h"
#include "src/model/metrics/sequences.h"

namespace perigee {
namespace {

class Transcription : public SequenceEvaluation {
 public:
  Transcription(const Config& options, const EvaluationTask& task) : SequenceEvaluation("transcription", task, options.integer("beams")) {}

  Json result() const override {
    Json json(Json::Object{{"label_error_rate", ratio(errors_, labels_)}, {"sequence_accuracy", ratio(equal_, sequences_)}});
    if (!named()) return json;
    json.set("word_error_rate", ratio(word_errors_, words_));
    json.set("character_error_rate", ratio(character_errors_, characters_));
    return json;
  }

 protected:
  void add_pair(const Symbols& predicted, const Symbols& wanted, double weight) override {
    const auto add = [&](double& errors, double& all, const Symbols& said, const Symbols& meant) {
      errors += weight * static_cast<double>(edit_distance(said, meant));
      all += weight * static_cast<double>(meant.size());
    };
    add(errors_, labels_, predicted, wanted);
    sequences_ += weight, equal_ += predicted == wanted ? weight : 0;
    if (!named()) return;
    const std::string said = text(predicted), meant = text(wanted);
    const auto [a, b] = words_of(said, meant);
    add(word_errors_, words_, a, b);
    add(character_errors_, characters_, characters_of(said, false), characters_of(meant, false));
  }

  std::vector<double*> sums() override {
    return {&errors_, &labels_, &equal_, &sequences_, &word_errors_, &words_, &character_errors_, &characters_};
  }

 private:
  double errors_ = 0, labels_ = 0, equal_ = 0, sequences_ = 0, word_errors_ = 0, words_ = 0, character_errors_ = 0, characters_ = 0;
};

constexpr Option kTranscriptionOptions[] = {kBeamsOption};

}  // namespace

extern const EvaluationDef evaluation_transcription;
const EvaluationDef evaluation_transcription{
    .name = "transcription",
    .doc =
        "Label error rate (edits over labels wanted) and share of equal sequences; of labels with names also word and character error "
        "rate of their text. Decodes outputs of ctc; of other sequences it takes the likeliest class of each step. Option beams",
    .schema = {.options = kTranscriptionOptions},
    .make = [](const Config& options, const EvaluationTask& task) -> std::unique_ptr<Evaluation> {
      return std::make_unique<Transcription>(options, task);
    }};

}  // namespace perigee
