// Texts that a model with an encoder writes: what the decoder's direct forward pass says, unit by unit, by any way to get there; and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/generate/generation.h"
#include "src/generate/stream_scores.h"
#include "src/generate/window_scores.h"
#include "src/model/inference.h"
#include "src/run/checkpoint.h"
#include "src/train/trainer.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

// "abc" becomes "zyx": the letters' counterparts in reverse. Inputs have one to four letters.
std::string written(const std::string& input) {
  std::string output;
  for (auto letter = input.rbegin(); letter != input.rend(); ++letter) output += static_cast<char>('x' + (*letter - 'a'));
  return output;
}

constexpr int64_t kLongest = 4, kEnd = 4;  // numbers of the output: unknown, x, y, z, the end

class Translation : public testing::Test {
 protected:
  // `decoder`: nodes of a graph from "memory" and "written" to "seen".
  void train(const std::string& decoder, int epochs) {
    Json inputs = Json::array(), outputs = Json::array();
    std::vector<std::string> all{""};
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].size() < kLongest)
        for (const char letter : {'a', 'b', 'c'}) all.push_back(all[i] + letter);
    for (size_t i = 1; i < all.size(); ++i) inputs.push(all[i]), outputs.push(written(all[i]));
    Json job = Json::parse(R"({"loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.01}, "seed": 3, "inputs": ["x", "d"],
      "network": {"type": "graph", "inputs": ["x", "d"], "outputs": ["y"], "nodes": [
        {"name": "letters", "layer": {"type": "embedding", "size": 4, "out": 8}, "inputs": ["x"]},
        {"name": "memory", "layer": {"type": "lstm", "units": 12, "bidirectional": "concat"}, "inputs": ["letters"]},
        {"name": "signs", "layer": {"type": "embedding", "size": 5, "out": 8}, "inputs": ["d"]},
        {"name": "written", "layer": {"type": "lstm", "units": 24}, "inputs": ["signs"]},)" +
                               decoder + R"(,
        {"name": "both", "layer": {"type": "concat"}, "inputs": ["written", "seen"]},
        {"name": "y", "layer": {"type": "dense", "out": 5, "over": "steps"}, "inputs": ["both"]}]}})",
                           "job");
    job.set("epochs", epochs);
    Json source(Json::Object{{"type", "text_pairs"}, {"inputs", std::move(inputs)}, {"outputs", std::move(outputs)}});
    job.set("data", Json(Json::Object{{"batch", 20}, {"train", std::move(source)}}));
    Trainer trainer(Job(job, "job", folder_.path()), {.threads = 1});
    trainer.run(std::atomic<bool>(false));
    save_model(trainer, folder_ / "model.safetensors");
    loaded_ = load_model(folder_ / "model.safetensors");
  }
  static constexpr const char* kAttention =
      R"({"name": "seen", "layer": {"type": "attention", "heads": 2}, "inputs": ["written", "memory"]})";

  Model& model() { return *loaded_.model; }
  TextModel text() { return TextModel(model(), loaded_.job, loaded_.fitted); }

  std::string generate(const GenerateOptions& options, bool* stopped = nullptr) {
    Generation generation(model(), loaded_.job, loaded_.fitted, options, "test: ");
    std::string text;
    while (const std::optional<std::string> piece = generation.next()) text += *piece;
    if (stopped) *stopped = generation.stopped();
    return text;
  }

  // Probabilities [unit] of what follows `output`, by the whole network at once. Nothing of generation is used: numbers are given by hand.
  std::vector<float> direct(const std::string& input, const std::string& output) {
    std::map<std::string, std::vector<int64_t>> fields;
    for (const char letter : input) fields["x"].push_back(number(letter_names(), letter));
    fields["n"] = {static_cast<int64_t>(input.size())};
    fields["d"] = {kEnd};
    for (const char sign : output) fields["d"].push_back(number(sign_names(), sign));
    const size_t at = fields["d"].size() - 1;
    fields["x"].resize(kLongest), fields["d"].resize(kLongest + 1);
    std::vector<const std::byte*> given;
    for (const NetworkInput& field : model().spec().inputs)
      given.push_back(reinterpret_cast<const std::byte*>(fields.at(field.name).data()));
    ThreadTeam team(1);
    Inference inference(model(), team, false, 1);
    const Tensor whole = inference.run(given, 1).output.rows(0, 1).clone();  // [1, units, steps]
    std::vector<float> found;
    for (int64_t unit = 0; unit <= kEnd; ++unit) found.push_back(whole.data<float>()[static_cast<size_t>(unit * (kLongest + 1)) + at]);
    return found;
  }

  std::string direct_greedy(const std::string& input) {
    std::string output;
    while (output.size() <= kLongest) {
      std::vector<float> next = direct(input, output);
      next[0] = -1;  // the unknown is not written
      const auto best = std::max_element(next.begin(), next.end()) - next.begin();
      if (best == kEnd) break;
      output += sign_names().at(static_cast<size_t>(best));
    }
    return output;
  }

  std::vector<std::string> letter_names() { return names("input"); }
  std::vector<std::string> sign_names() { return names("output"); }

  TemporaryFolder folder_;
  LoadedModel loaded_;

 private:
  std::vector<std::string> names(const char* side) {
    std::vector<std::string> names{"<unknown>"};  // which a file does not list
    for (const Json& name : loaded_.fitted.find(side)->find("vocabulary")->as_array()) names.push_back(name.as_string());
    return names;
  }
  static int64_t number(const std::vector<std::string>& names, char letter) {
    return std::find(names.begin(), names.end(), std::string(1, letter)) - names.begin();
  }
};

GenerateOptions greedy(const std::string& input) { return {.input = input, .tokens = 50, .sampling = {.temperature = 0}}; }

TEST_F(Translation, TheLikeliestUnitsAreTheDirectOnes) {
  train(kAttention, 3);  // far from done: what it writes is no text that is known before
  int different = 0;
  for (const char* input : {"a", "b", "ab", "cab", "bbca", "cccc", "abca"}) {
    const std::string expected = direct_greedy(input);
    EXPECT_EQ(generate(greedy(input)), expected) << input;
    different += expected != written(input);
  }
  EXPECT_GT(different, 0) << "an output that is right says nothing about where it comes from";
}

TEST_F(Translation, WhatItHasLearnedIsWritten) {
  train(kAttention, 40);
  for (const char* input : {"a", "cab", "bbca"}) {
    bool stopped = true;
    EXPECT_EQ(generate(greedy(input), &stopped), written(input));
    EXPECT_FALSE(stopped) << "an end is no stop text";
    EXPECT_EQ(generate({.input = input, .tokens = 50, .beams = 3}), written(input));
  }
  GenerateOptions options = greedy("bbca");  // xzyy
  options.tokens = 2;
  EXPECT_EQ(generate(options), "xz");
  options.tokens = 50, options.stop = {"y"};
  bool stopped = false;
  EXPECT_EQ(generate(options, &stopped), "xz");
  EXPECT_TRUE(stopped);
  options.stop.clear(), options.prompt = "xz";
  EXPECT_EQ(generate(options), "yy") << "how the output begins";
  options = greedy("cab");
  options.sampling.no_repeat = 1;
  EXPECT_EQ(generate(options), "yxz") << "an end that is an output's beginning, too, was not there before";
  const auto drawn = [&](uint64_t seed) {
    return generate({.input = "abca", .tokens = 50, .sampling = {.temperature = 30, .seed = seed}});
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_TRUE(drawn(1) != drawn(2) || drawn(2) != drawn(3));
}

// By the best of all outputs of up to two units, with the probabilities of the direct pass.
TEST_F(Translation, ManyBeamsFindTheBestOfAll) {
  train(kAttention, 3);
  for (const char* input : {"ab", "bca"}) {
    std::map<double, std::string> found;
    const auto walk = [&](auto&& self, const std::string& output, double sum) -> void {
      const std::vector<float> next = direct(input, output);
      double rest = 0;  // without the unknown
      for (int64_t unit = 0; unit <= kEnd; ++unit) rest += unit == 0 ? 0 : next[static_cast<size_t>(unit)];
      const auto length = static_cast<double>(output.size() + 1);
      for (int64_t unit = 1; unit <= kEnd; ++unit) {
        const double now = sum + std::log(next[static_cast<size_t>(unit)] / rest);
        const std::string longer = unit == kEnd ? output : output + sign_names()[static_cast<size_t>(unit)];
        if (unit == kEnd || output.size() == 1) found[now / length] = longer;
        else self(self, longer, now);
      }
    };
    walk(walk, "", 0);
    EXPECT_EQ(generate({.input = input, .tokens = 2, .beams = 16}), found.rbegin()->second) << input;
  }
}

// A decoder that must see its whole window computes it again for each unit, and writes the same.
TEST_F(Translation, ADecoderThatCannotGoStepByStepWritesToo) {
  train(R"({"name": "around", "layer": {"type": "attention", "causal": true, "project": false}, "inputs": ["written"]},
    {"name": "seen", "layer": {"type": "attention"}, "inputs": ["around", "memory"]})",
        3);
  const TextModel of = text();
  const std::unique_ptr<NextScores> scores = scores_of(model(), of, 1, of.memory("ab", "test"));
  EXPECT_NE(dynamic_cast<WindowScores*>(scores.get()), nullptr);
  for (const char* input : {"b", "cab", "bbca"}) EXPECT_EQ(generate(greedy(input)), direct_greedy(input)) << input;
}

TEST_F(Translation, TheInputIsEncodedOnceForAllRows) {
  train(kAttention, 1);
  const TextModel of = text();
  const TextMemory memory = of.memory("cab", "test");
  const std::unique_ptr<NextScores> scores = scores_of(model(), of, 3, memory);
  ASSERT_NE(dynamic_cast<StreamScores*>(scores.get()), nullptr);
  WindowScores windows(model(), of, 3, memory);
  const std::vector<int64_t> prompt = of.numbers("", "test");
  scores->begin(prompt), windows.begin(prompt);
  std::vector<double> expected(static_cast<size_t>(of.vocabulary_size())), got(expected.size());
  for (int step = 0; step < 3; ++step) {
    for (int row = 0; row < 3; ++row) {
      windows.scores(row, expected), scores->scores(row, got);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << "step " << step << " row " << row;
    }
    const std::vector<int> parents{2, 0, 1};
    const std::vector<int64_t> units{1, 2 + step % 2, 3};
    scores->advance(parents, units), windows.advance(parents, units);
  }
}

TEST_F(Translation, SaysWhatIsWrong) {
  train(kAttention, 1);
  const auto of = [&](ErrorKind kind, const GenerateOptions& options) { return refusal(kind, [&] { generate(options); }); };
  EXPECT_HAS(of(ErrorKind::usage, {.prompt = "xy", .tokens = 5}),
             "test: input: the model reads one text and writes another, and has none to read");
  EXPECT_HAS(of(ErrorKind::usage, {.prompt = "xy", .tokens = 5}), "a prompt alone");
  EXPECT_HAS(of(ErrorKind::usage, greedy("")), "there is nothing to read");
  const std::string unknown = of(ErrorKind::data, greedy("aXb"));
  EXPECT_HAS(unknown, "test: input: byte 1");
  EXPECT_HAS(unknown, "not in the model's vocabulary");
  EXPECT_HAS(of(ErrorKind::data, greedy("abcab")), "the text is longer than what the model reads");
  GenerateOptions options = greedy("ab");
  options.prompt = "xyzxy";
  EXPECT_HAS(of(ErrorKind::data, options), "the model writes no texts as long as this beginning");
  options.prompt = "q";
  EXPECT_HAS(of(ErrorKind::data, options), "test: prompt: byte 0");
}

}  // namespace
}  // namespace perigee
