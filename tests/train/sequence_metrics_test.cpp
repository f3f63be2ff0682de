// Error rates, BLEU, chrF and perplexity against sacrebleu, jiwer and counts by hand; what a network trained with ctc says, from the data to
// the prediction.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "src/core/warning.h"
#include "src/io/npy.h"
#include "src/model/evaluator.h"
#include "src/model/metrics/text_scores.h"
#include "src/model/prediction.h"
#include "src/run/checkpoint.h"
#include "src/run/epoch_judge.h"
#include "src/train/trainer.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

double number(const Json& json, const std::string& key) {
  const Json* found = json.find(key);
  EXPECT_TRUE(found && found->is_number()) << key << " in " << json.dump();
  return found && found->is_number() ? found->as_number() : NAN;
}

struct Pair {
  const char *predicted, *wanted;
  double bleu, bleu_none, chrf, words, characters;
};

// sacrebleu 2.6.0: corpus_bleu(h, [r]).score, the same with tokenize="none", corpus_chrf(h, [r]).score; jiwer 4.0: wer(r, h), cer(r, h).
constexpr Pair kPairs[] = {{"The cat, it seems, sat on the mat.", "The cat sat, it seems, on the mat.", 52.8097221647, 27.0541134527,
                            76.3350984764, 0.375, 0.235294117647},
                           {"He paid $3,50 (or 3-4 euros) for \"tea\" & cake!", "He paid $3.50 (or 3-4 euros) for \"tea\" and cake!",
                            68.9930212556, 46.7137977728, 75.6744900327, 0.2, 0.0833333333333},
                           {"Größe: 12.5 cm ... naïve café", "Größe: 12,5 cm - naïve café", 14.2587697645, 19.3048697548, 63.8667343306,
                            0.333333333333, 0.148148148148},
                           {"a b c d e f", "a b c d e f g", 84.6481724891, 84.6481724891, 77.5710334423, 0.142857142857, 0.153846153846},
                           {"no match here at all", "completely different words there", 0, 0, 12.2798559018, 1.25, 0.75},
                           {"", "something", 0, 0, 0, 1, 1}};
constexpr Pair kTogether = {"", "", 53.832275065, 38.8733150013, 56.9687283254, 0.388888888889, 0.312883435583};

void expect_scores(const Pair& wanted, const TextScores& tokenized, const TextScores& plain, const std::string& what) {
  EXPECT_NEAR(number(tokenized.figures(), "bleu"), wanted.bleu, 1e-8) << what;
  EXPECT_NEAR(number(plain.figures(), "bleu"), wanted.bleu_none, 1e-8) << what;
  EXPECT_NEAR(number(plain.figures(), "chrf"), wanted.chrf, 1e-8) << what;
  EXPECT_NEAR(number(plain.figures(), "word_error_rate"), wanted.words, 1e-11) << what;
  EXPECT_NEAR(number(plain.figures(), "character_error_rate"), wanted.characters, 1e-11) << what;
}

TEST(TextScores, AreThoseOfSacrebleuAndJiwer) {
  TextScores all, all_plain;
  for (const Pair& pair : kPairs) {
    TextScores one, plain;
    one.add(pair.predicted, pair.wanted, true), plain.add(pair.predicted, pair.wanted, false);
    all.add(pair.predicted, pair.wanted, true), all_plain.add(pair.predicted, pair.wanted, false);
    expect_scores(pair, one, plain, pair.predicted);
  }
  expect_scores(kTogether, all, all_plain, "all together");
  EXPECT_TRUE(TextScores().figures().find("bleu")->is_null());
  EXPECT_TRUE(TextScores().figures().find("word_error_rate")->is_null());
}

TEST(TextScores, NgramsCountNothingWhereTheWantedTextIsTooShort) {  // sacrebleu 2.6.0: corpus_chrf
  TextScores scores;
  scores.add("a longer text", "a longer texts", true);
  scores.add("abcdef", "abc", true);
  EXPECT_NEAR(number(scores.figures(), "chrf"), 89.79628691021833, 1e-8);
}

TEST(TextScores, PunctuationIsPartedAsMtevalDoes) {  // sacrebleu 2.6.0: Tokenizer13a()
  const auto [got, wanted] = words_of(tokenized_13a("1.,2 x..y 3-4 -5 a.b,c.d &quot;q&amp; 1,000.5. <skipped>z caf\u00e0"),
                                      "1 . , 2 x . . y 3 - 4 -5 a . b , c . d \" q & 1,000.5 . z caf\u00e0");
  EXPECT_EQ(got, wanted);
}

// --- Evaluations ---------------------------------------------------------------------------------------------------------------

// Probabilities of one class each: outputs [N, classes, T].
Tensor certain(const std::vector<std::vector<int64_t>>& classes_of, int64_t classes) {
  const auto n = static_cast<int64_t>(classes_of.size()), steps = static_cast<int64_t>(classes_of[0].size());
  Tensor output(Dtype::f32, Shape{n, classes, steps});
  std::fill_n(output.data<float>(), output.elements(), 0.f);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t t = 0; t < steps; ++t)
      output.data<float>()[(i * classes + classes_of[static_cast<size_t>(i)][static_cast<size_t>(t)]) * steps + t] = 1;
  return output;
}

Tensor label_rows(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Tensor::from<int64_t>(Shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, all);
}

// Whole, and in two parts of which one went through JSON.
Json judged(const Json& description, const EvaluationTask& task, const Tensor& output, const Tensor& target,
            const std::vector<double>& weights = {}, const std::vector<int64_t>& ends = {}) {
  const int64_t n = output.shape()[0], half = n / 2;
  const auto feed = [&](Evaluation& evaluation, int64_t begin, int64_t end) {
    const Tensor out = output.rows(begin, end), wanted = target.rows(begin, end);
    const size_t each = weights.size() / static_cast<size_t>(n);
    evaluation.add_sequences(
        {.output = out,
         .target = wanted,
         .count = end - begin,
         .weights = std::span(weights).subspan(static_cast<size_t>(begin) * each, static_cast<size_t>(end - begin) * each),
         .output_ends = ends.empty() ? std::span<const int64_t>()
                                     : std::span(ends).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))});
  };
  const auto whole = make_evaluation(description, task, "test"), first = make_evaluation(description, task, "test"),
             second = make_evaluation(description, task, "test"), sent = make_evaluation(description, task, "test");
  feed(*whole, 0, n), feed(*first, 0, half), feed(*second, half, n);
  sent->restore(Json::parse(second->state().dump(), "state"));
  first->merge(*sent);
  EXPECT_EQ(first->result(), whole->result());
  return whole->result();
}

TEST(SequenceMetrics, CtcIsDecodedAndCompared) {
  const EvaluationTask task{.class_names = {"<blank>", "a", "b", " "}, .sequence = true, .blank = 0};
  // "ab", "a b" with a step behind the end, "aa": wanted are "ab", "b b", "a".
  const Tensor output = certain({{1, 1, 0, 2, 0}, {1, 3, 2, 2, 1}, {1, 0, 1, 1, 0}}, 4);
  const Tensor target = label_rows({{1, 2, -1}, {2, 3, 2}, {1, -1, 3}});
  const Json got = judged("transcription", task, output, target, {}, {5, 4, 5});
  EXPECT_NEAR(number(got, "label_error_rate"), 2.0 / 6, 1e-12);
  EXPECT_NEAR(number(got, "sequence_accuracy"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(number(got, "character_error_rate"), 2.0 / 6, 1e-12);
  EXPECT_NEAR(number(got, "word_error_rate"), 2.0 / 4, 1e-12);
  EXPECT_NEAR(number(judged("transcription", task, output, target), "label_error_rate"), 3.0 / 6, 1e-12) << "without the lengths";
  EXPECT_NEAR(number(judged("transcription", task, output, target, {1, 0, 2}, {5, 4, 5}), "label_error_rate"), 2.0 / 4, 1e-12);
  EXPECT_EQ(judged("transcription", {.sequence = true, .blank = 0}, output, target).find("word_error_rate"), nullptr)
      << "no names, no words";
  EXPECT_NEAR(
      number(judged(Json(Json::Object{{"type", "transcription"}, {"beams", 4}}), task, output, target, {}, {5, 4, 5}), "label_error_rate"),
      2.0 / 6, 1e-12);
}

// sacrebleu 2.6.0, of the texts "3 1 4 1 5", "2 7", "9" beside "3 1 4 1 5 9", "2 7 1 8", "9": 68.7289278791, and chrF 62.4067628046.
TEST(SequenceMetrics, NgramsAreThoseOfSacrebleu) {
  const EvaluationTask task{.sequence = true, .blank = 0};
  const Tensor output = certain({{3, 1, 4, 1, 5, 0}, {2, 7, 0, 0, 0, 0}, {9, 9, 9, 9, 9, 9}}, 10);
  const Tensor target = label_rows({{3, 1, 4, 1, 5, 9}, {2, 7, 1, 8, -1, -1}, {9, -1, -1, -1, -1, -1}});
  EXPECT_NEAR(number(judged("bleu", task, output, target), "bleu"), 68.7289278791, 1e-8);
  EXPECT_NEAR(number(judged("chrf", task, output, target), "chrf"), 62.4067628046, 1e-8);
}

TEST(SequenceMetrics, StepsThatDoNotCountAreLeftOut) {
  const Tensor output = certain({{1, 2, 0}, {2, 2, 2}}, 3), target = label_rows({{1, 1, 2}, {2, 2, 0}});
  const std::vector<double> weights = {1, 1, 0, 1, 1, 0};
  const Json got = judged("transcription", {.sequence = true}, output, target, weights);
  EXPECT_NEAR(number(got, "label_error_rate"), 1.0 / 4, 1e-12);
  EXPECT_NEAR(number(got, "sequence_accuracy"), 1.0 / 2, 1e-12);
}

TEST(SequenceMetrics, PerplexityIsOfTheTokensThatCount) {
  const auto tokens = make_evaluation("tokens", {.sequence = true}, "test");
  const Tensor output = Tensor::from<float>({4, 2}, {.5f, .5f, .25f, .75f, .125f, .875f, 0, 1}),
               target = Tensor::from<int64_t>({4}, {0, 0, 1, 0});
  tokens->add(output, target, 4, std::vector<double>{1, 2, 1, 0});
  const Json got = tokens->result();
  EXPECT_NEAR(number(got, "perplexity"), std::exp((std::log(2) + 2 * std::log(4) - std::log(.875)) / 4), 1e-6);
  EXPECT_NEAR(number(got, "token_accuracy"), 0.5, 1e-12) << "the first of equals is the likeliest";
  const auto sent = make_evaluation("tokens", {}, "test");
  sent->restore(Json::parse(tokens->state().dump(), "state"));
  sent->merge(*tokens);
  EXPECT_NEAR(number(sent->result(), "perplexity"), number(got, "perplexity"), 1e-12);
  EXPECT_EQ(number(sent->result(), "tokens"), 8);
}

TEST(SequenceMetrics, RefuseWhatIsNoSequence) {
  const auto evaluation = make_evaluation("bleu", {.classes = 3}, "test");
  const Tensor output = certain({{1, 2, 0}}, 3), target = Tensor::from<int64_t>({1}, {2});
  EXPECT_HAS(refusal(ErrorKind::model, [&] { evaluation->add(output, target); }), "goes by sequences of labels");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { judged("chrf", {.classes = 3}, output, target); }), "or the loss 'ctc'");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { EvaluationSums("chrf", {.classes = 3}, "test"); }), "each example has one class");
  const Json state = Json::parse(R"({"sums": [1, 2]})", "state");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { evaluation->restore(state); }), "has the wrong length");
}

// --- A network trained with ctc ------------------------------------------------------------------------------------------------

// Pulses of three heights, each of two steps and a gap, and behind the lengths what must not be seen.
struct Pulses {
  Json x = Json::array(), y = Json::array(), n = Json::array();
  std::vector<std::vector<int64_t>> labels;

  explicit Pulses(int64_t examples, int64_t steps = 16) {
    for (int64_t i = 0; i < examples; ++i) {
      Json a = Json::array(), b = Json::array(), wanted = Json::array();
      std::vector<int64_t>& own = labels.emplace_back();
      const int64_t count = 1 + i % 4;
      for (int64_t k = 0; k < count; ++k) own.push_back(1 + (i / 4 + k * (1 + i % 3)) % 3);
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t k = t / 3;
        const double height = k < count ? (t % 3 < 2 ? static_cast<double>(own[static_cast<size_t>(k)]) : 0) : 2;
        a.push(height), b.push(height == 2 ? 1.0 : 0.25);
      }
      for (int64_t k = 0; k < 4; ++k) wanted.push(k < count ? own[static_cast<size_t>(k)] : -1);
      Json both = Json::array();
      both.push(a), both.push(b);
      x.push(both), y.push(wanted), n.push(3 * count);
    }
  }
  Json source() const {
    return Json(
        Json::Object{{"type", "arrays"}, {"x", x}, {"y", y}, {"n", n}, {"class_names", Json(Json::Array{"<blank>", "a", "b", "c"})}});
  }
};

Json ctc_job(const Pulses& pulses, const std::string& more = "") {
  Json job = Json::parse(R"({"optimizer": {"type": "adam", "lr": 0.02}, "seed": 3, "epochs": 12, "loss": "ctc", "network":
    [{"type": "conv1d", "out": 12, "kernel": 3, "padding": "same", "activation": "tanh"}, {"type": "conv1d", "out": 4, "kernel": 1}],
    "data": {"batch": 8, "lengths": {"x": "n"}})" +
                             more + "}",
                         "job");
  job.find("data")->set("train", pulses.source());
  job.find("data")->set("validation", pulses.source());
  return job;
}

struct TrainedCtc {
  TemporaryFolder folder;
  Pulses pulses{48};
  Json report;
  LoadedModel model;
  ThreadTeam team{2};
  TrainedCtc() {
    Trainer trainer(Job(ctc_job(pulses), "job", folder.path()), {.threads = 2});
    trainer.run(std::atomic<bool>(false));
    report = trainer.evaluator("validation")->run();
    save_model(trainer, folder / "model.safetensors");
    model = load_model(folder / "model.safetensors");
  }
  Predictions predict(const PredictionOptions& options = {}) {
    const RecordReader reader(model.model->spec(), model.job, model.fitted);
    Json records = Json::array();
    for (size_t i = 0; i < pulses.labels.size(); ++i)
      records.push(Json(Json::Object{{"x", pulses.x.as_array()[i]}, {"n", pulses.n.as_array()[i]}}));
    return RecordPredictor(*model.model, model.class_names, team, {}, options).all(reader.open(records, "records"));
  }
};

TEST(Ctc, AModelAnswersWithLabels) {
  TrainedCtc trained;
  const Predictions got = trained.predict();
  ASSERT_EQ(got.sequences.size(), trained.pulses.labels.size());
  double errors = 0, labels = 0, equal = 0;
  for (size_t i = 0; i < got.sequences.size(); ++i) {
    const Symbols &predicted = got.sequences[i].at(0).labels, &wanted = trained.pulses.labels[i];
    errors += static_cast<double>(edit_distance(predicted, wanted)), labels += static_cast<double>(wanted.size());
    equal += predicted == wanted;
    EXPECT_LE(predicted.size(), static_cast<size_t>(3 * wanted.size())) << "steps behind the length are read";
  }
  EXPECT_LT(errors / labels, 0.1) << "it has learnt to read pulses";
  EXPECT_NEAR(number(trained.report, "label_error_rate"), errors / labels, 1e-12) << "the evaluation decodes the same";
  EXPECT_NEAR(number(trained.report, "sequence_accuracy"), equal / static_cast<double>(got.sequences.size()), 1e-12);
  EXPECT_NE(trained.report.find("word_error_rate"), nullptr) << "the data name the labels";
  const Json json = got.json(0);
  EXPECT_EQ(json.find("labels")->as_array().size(), got.sequences[0][0].labels.size());
  EXPECT_EQ(json.find("text")->as_string(), label_text(got.sequences[0][0].labels, {"<blank>", "a", "b", "c"}));
  EXPECT_EQ(json.find("values")->as_array().size(), 64u);
  EXPECT_EQ(json.find("alternatives"), nullptr);
}

// Every path of the steps that are there, and the labels that it spells.
TEST(Ctc, ASearchFindsTheLikeliestLabels) {
  TrainedCtc trained;
  const Predictions got = trained.predict({.beams = 1000});
  const View p = got.values[0].view();
  for (const int64_t example : {0, 1, 4}) {
    const int64_t steps = trained.pulses.n.as_array()[static_cast<size_t>(example)].as_int();
    std::map<Symbols, double> spelled;
    const std::function<void(int64_t, int64_t, Symbols, double)> walk = [&](int64_t t, int64_t before, Symbols labels, double probability) {
      if (t == steps) {
        spelled[labels] += probability;
        return;
      }
      for (int64_t c = 0; c < 4; ++c) {
        Symbols next = labels;
        if (c != 0 && c != before) next.push_back(c);
        walk(t + 1, c, next, probability * double{p.as<float>()[(example * 4 + c) * 16 + t]});
      }
    };
    walk(0, 0, {}, 1);
    const auto& found = got.sequences[static_cast<size_t>(example)];
    EXPECT_EQ(static_cast<int64_t>(found.size()), kMostAlternatives);
    const auto best = std::max_element(spelled.begin(), spelled.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    EXPECT_EQ(found[0].labels, best->first);
    for (const LabelSequence& each : found) EXPECT_NEAR(std::exp(each.score), spelled[each.labels], 1e-6);
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.score > b.score; }));
  }
  EXPECT_EQ(got.json(0).find("alternatives")->as_array().size(), static_cast<size_t>(kMostAlternatives - 1));
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { trained.predict({.beams = 1001}); }), "1 to 1000");
}

// Lengths of an input say nothing of a target that has other steps; a weight of an example is one of each of its steps.
TEST(SequenceMetrics, StepsOfATargetThatHasOthersThanTheInputCount) {
  const EvaluationTask task{.sequence = true};
  EvaluationSums sums(Json(Json::Array{"tokens", "transcription"}), task, "test");
  const Inference::Result result{.output = certain({{1, 2, 0}, {2, 2, 2}}, 3), .loss = {1, 1}, .count = 2};
  sums.add(result, label_rows({{1, 1, 0}, {2, 2, 2}}), std::vector<double>{1, 0}, 1);
  const Json report = sums.report("");
  EXPECT_NEAR(number(report, "token_accuracy"), 2.0 / 3, 1e-12);
  EXPECT_EQ(number(report, "tokens"), 3);
  EXPECT_NEAR(number(*report.find("transcription"), "label_error_rate"), 1.0 / 3, 1e-12);
}

TEST(Ctc, RefusesFiguresOfSteps) {
  const TemporaryFolder folder;
  const Pulses pulses(8);
  const auto figures = [&](const std::string& more) {
    Trainer trainer(Job(ctc_job(pulses, more), "job", folder.path()), {.threads = 1});
    return trainer.evaluator("validation")->run();
  };
  EXPECT_HAS(refusal(ErrorKind::model, [&] { figures(R"(, "metrics": ["tokens"])"); }), "have no place among the steps");
  const Json several = figures(R"(, "metrics": [{"type": "transcription", "beams": 4}, "bleu", "chrf"])");
  for (const char* name : {"loss", "label_error_rate", "sequence_accuracy", "character_error_rate", "bleu", "chrf"})
    EXPECT_NE(several.find(name), nullptr) << several.dump();
  Trainer trainer(Job(ctc_job(pulses, R"(, "early_stopping": {"metric": "validation.label_error_rate"})"), "job", folder.path()),
                  {.threads = 1});
  const EvaluationTask task = trainer.evaluator("validation")->task();
  EXPECT_NO_THROW(EpochJudge(trainer.job(), [&](const std::string& part) -> std::optional<EvaluationTask> {
    return part == "train" ? std::optional(EvaluationTask{}) : part == "validation" ? std::optional(task) : std::nullopt;
  }));
}

}  // namespace
}  // namespace perigee
