// Texts from the prompt to the end: what a trained model goes on with, stop texts, the same text by any way, and what is refused.
#include "src/generate/generation.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/core/utf8.h"
#include "src/generate/stream_scores.h"
#include "src/generate/window_scores.h"
#include "tests/core/refusal.h"
#include "tests/generate/small_text.h"

namespace perigee {
namespace {

GenerateOptions greedily(const std::string& prompt, int64_t tokens) {
  return {.prompt = prompt, .tokens = tokens, .sampling = {.temperature = 0}};
}

TEST(Generation, GoesOnAsTheTextDoes) {
  SmallText small;
  EXPECT_EQ(small.generate(greedily("one, ", 12)), "two, three; ");
  EXPECT_EQ(small.generate(greedily("three; one, two, three; ", 9)), "one, two,") << "a prompt longer than the window";
  EXPECT_EQ(small.generate({.prompt = "one, ", .tokens = 12, .beams = 3}), "two, three; ");
  EXPECT_EQ(small.generate(greedily("w", 1)).size(), 1u) << "a prompt shorter than the window";
}

TEST(Generation, WordsAreTokensToo) {
  SmallText small(R"([{"type": "embedding", "size": 6, "out": 6}, "flatten", {"type": "dense", "out": 6}])", "next", R"(, "unit": "word")");
  EXPECT_EQ(small.generate(greedily("one, two,", 5)), " three; one, two");
}

// "é" is two tokens of one byte each: it comes out as a whole.
TEST(Generation, TokensOfBytesBecomeCharacters) {
  TemporaryFolder folder;
  write_file(folder / "tokenizer.json", as_bytes(R"({"model":{"type":"BPE","vocab":{"a":0,"\u00c3":1,"\u00a9":2,"\u0120":3,"\u0120a":4},
    "merges":["\u0120 a"]},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"}})"));
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a\xC3\xA9 ";
  SmallText small(R"([{"type": "embedding", "size": 5, "out": 6}, "flatten", {"type": "dense", "out": 5}])", "next",
                  R"(, "tokenizer": ")" + (folder / "tokenizer.json") + "\"", text);
  std::vector<std::string> pieces;
  EXPECT_EQ(small.generate(greedily("a\xC3\xA9 a\xC3\xA9 a", 5), &pieces), "\xC3\xA9 a\xC3\xA9");
  for (const std::string& piece : pieces) EXPECT_NE(utf8_length(piece, 0), 0u) << piece;
}

// A model that foretells every position reads a window from its beginning.
TEST(Generation, EveryPositionIsForetold) {
  SmallText small(R"([{"type": "embedding", "size": 14, "out": 6},
    {"type": "conv1d", "out": 32, "kernel": 4, "padding": "causal", "activation": "tanh"}, {"type": "conv1d", "out": 14, "kernel": 1}])",
                  "every");
  EXPECT_EQ(small.generate(greedily("one, ", 12)), "two, three; ");
  EXPECT_EQ(small.generate({.prompt = "one, ", .tokens = 12, .beams = 3}), "two, three; ");
}

constexpr const char* kRecurrent = R"([{"type": "embedding", "size": 14, "out": 8}, {"type": "lstm", "units": 24, "state": "carry"},
    {"type": "dense", "out": 14, "over": "steps"}])";

// The state is that of the text so far, so that each unit is read once.
TEST(Generation, ARecurrentModelReadsEachUnitOnce) {
  SmallText small(kRecurrent, "every", R"(, "streams": 32)");
  EXPECT_EQ(small.generate(greedily("one, ", 40)), "two, three; one, two, three; one, two, t");
  EXPECT_EQ(small.generate({.prompt = "one, ", .tokens = 12, .beams = 3}), "two, three; ");
  const TextModel text(small.model(), small.job(), small.fitted());
  for (const int rows : {1, 3}) {
    const std::unique_ptr<NextScores> scores = scores_of(small.model(), text, rows);
    ASSERT_NE(dynamic_cast<StreamScores*>(scores.get()), nullptr);
    WindowScores windows(small.model(), text, rows, {});
    const std::vector<int64_t> prompt = text.numbers("on", "test");
    scores->begin(text.numbers("t", "test"));
    windows.begin(prompt);
    scores->begin(prompt);  // anew
    std::vector<double> expected(static_cast<size_t>(text.vocabulary_size())), got(expected.size());
    for (int step = 0; step < 3; ++step) {  // to the window's end; rows change places
      for (int row = 0; row < rows; ++row) {
        windows.scores(row, expected);
        scores->scores(row, got);
        for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4);
      }
      std::vector<int> parents;
      std::vector<int64_t> units;
      for (int row = 0; row < rows; ++row) parents.push_back(rows - 1 - row), units.push_back(1 + row + step);
      windows.advance(parents, units);
      scores->advance(parents, units);
    }
  }
}

// Within its window attention reads each unit once; then the window moves, and is computed again. Rows change places all the while.
TEST(Generation, AttentionReadsAWindowOnce) {
  SmallText small(R"([{"type": "embedding", "size": 14, "out": 8}, "positions", {"type": "transformer", "heads": 2, "causal": true},
    {"type": "dense", "out": 14, "over": "steps"}])",
                  "every");
  EXPECT_EQ(small.generate(greedily("one, ", 40)), "two, three; one, two, three; one, two, t");
  EXPECT_EQ(small.generate(greedily("w", 6)), "o, thr");
  EXPECT_EQ(small.generate({.prompt = "one, ", .tokens = 12, .beams = 3}), "two, three; ");
  const TextModel text(small.model(), small.job(), small.fitted());
  for (const int rows : {1, 3})
    for (const char* prompt : {"o", "one,", "three; o"}) {
      const std::unique_ptr<NextScores> scores = scores_of(small.model(), text, rows);
      ASSERT_NE(dynamic_cast<StreamScores*>(scores.get()), nullptr);
      WindowScores windows(small.model(), text, rows, {});
      for (NextScores* each : {scores.get(), static_cast<NextScores*>(&windows)}) {
        each->begin(text.numbers("three; one", "test"));
        each->begin(text.numbers(prompt, "test"));  // anew
      }
      std::vector<double> expected(static_cast<size_t>(text.vocabulary_size())), got(expected.size());
      for (int step = 0; step < 8; ++step) {
        for (int row = 0; row < rows; ++row) {
          windows.scores(row, expected);
          scores->scores(row, got);
          for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << prompt << " step " << step;
        }
        std::vector<int> parents;
        std::vector<int64_t> units;
        for (int row = 0; row < rows; ++row) parents.push_back((row + step) % rows), units.push_back(1 + row + step);
        windows.advance(parents, units);
        scores->advance(parents, units);
      }
    }
}

TEST(Generation, WhatNeedsOtherStepsComputesTheWindowAgain) {
  SmallText small(R"([{"type": "embedding", "size": 14, "out": 8}, {"type": "lstm", "units": 24},
    {"type": "attention", "causal": true, "project": false}, {"type": "conv1d", "out": 14, "kernel": 1}])",
                  "every");
  const TextModel text(small.model(), small.job(), small.fitted());
  EXPECT_NE(dynamic_cast<WindowScores*>(scores_of(small.model(), text, 1).get()), nullptr);
  EXPECT_EQ(small.generate(greedily("one, ", 12)), "two, three; ");
}

TEST(Generation, PiecesAreTheText) {
  SmallText small;
  std::vector<std::string> pieces;
  const std::string text = small.generate(greedily("one, ", 9), &pieces);
  EXPECT_EQ(pieces.size(), 9u) << "each character as it is made";
  GenerateOptions options = greedily("one, ", 40);
  options.stop = {"ree; ", "zzz"};
  pieces.clear();
  EXPECT_EQ(small.generate(options, &pieces), "two, th");
  for (const std::string& piece : pieces) EXPECT_EQ(piece.find("ree"), std::string::npos) << "what may begin a stop text is held back";
  options.stop = {"ree; x"};
  EXPECT_EQ(small.generate(options), small.generate(greedily("one, ", 40))) << "what only began like it comes out whole";
  Generation generation(small.model(), small.job(), small.fitted(),
                        {.prompt = "one, ", .tokens = 40, .sampling = {.temperature = 0}, .stop = {";"}}, "test: ");
  while (generation.next()) {}
  EXPECT_TRUE(generation.stopped());
}

TEST(Generation, TheSeedMakesTheText) {
  SmallText small;
  const auto drawn = [&](uint64_t seed) {
    return small.generate({.prompt = "one, ", .tokens = 60, .sampling = {.temperature = 8, .seed = seed}});
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  EXPECT_EQ(drawn(1).find("<unknown>"), std::string::npos) << "the unknown is never drawn";
}

TEST(Generation, ACopyHasTheNumbersOfItsTime) {
  SmallText small;
  const std::unique_ptr<Model> copy = copy_of(small.model());
  const GenerateOptions options = greedily("one, ", 12);
  std::memset(small.model().params().block(), 0, small.model().params().block_bytes());
  Generation generation(*copy, small.job(), small.fitted(), options, "test: ");
  std::string text;
  while (const auto piece = generation.next()) text += *piece;
  EXPECT_EQ(text, "two, three; ");
}

TEST(Generation, SaysWhatIsWrong) {
  SmallText small;
  const auto of_prompt = [&](ErrorKind kind, const std::string& prompt) {
    return refusal(kind, [&] { small.generate(greedily(prompt, 5)); });
  };
  const std::string unknown = of_prompt(ErrorKind::data, "one Z");
  EXPECT_HAS(unknown, "test: prompt: byte 4");
  EXPECT_HAS(unknown, "not in the model's vocabulary");
  EXPECT_HAS(unknown, "\"Z\"");
  EXPECT_HAS(of_prompt(ErrorKind::usage, ""), "nothing to go on from");
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { small.generate({.tokens = 5}); }),
             "test: prompt: the model goes on with a text, and has none");
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { small.generate({.prompt = "o", .input = "one", .tokens = 5}); }),
             "test: input: the model goes on with a text and reads no other");
  const auto of_options = [](const char* options) {
    return refusal(ErrorKind::usage, [&] { generate_options(Json::parse(options, "options"), "generate"); });
  };
  EXPECT_HAS(of_options(R"({"prompt": "a", "temprature": 1})"), "did you mean 'temperature'");
  EXPECT_HAS(of_options(R"({"prompt": "a", "top_p": 1.5})"), "top_p");
  EXPECT_HAS(of_options(R"({"prompt": "a", "beams": 2, "top_k": 5})"), "beams search without them");
  EXPECT_HAS(of_options(R"({"prompt": "a", "stop": [""]})"), "empty text");
  const std::string no_text = refusal(ErrorKind::usage, [] {
    ModelSpec spec;
    spec.network = Json::parse(R"([{"type": "dense", "out": 2}])", "n");
    spec.inputs = {{"x", {Dtype::f32, Shape{3}}}};
    const Model model(std::move(spec));
    const TextModel text(model, Json(), Json());
  });
  EXPECT_HAS(no_text, "no model of text");
}

}  // namespace
}  // namespace perigee
