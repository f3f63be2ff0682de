// Layers that make features of sound: the transforms' numbers, by the host's kernels in f32 and by the reference in f64, of recordings of different
// lengths; and their gradients with all options.
#include "tests/nn/sound_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/data/source.h"
#include "src/data/transform.h"
#include "tests/nn/gradients.h"

namespace perigee {
namespace {

constexpr int64_t kExamples = 5, kChannels = 2, kSteps = 700;
const std::vector<int64_t> kLengths = {700, 320, 97, 41, 0};  // whole, on the border of a frame, to less than a window

// Tones under noise.
Tensor waveforms() {
  std::mt19937_64 random(7);
  Tensor x = case_values(real(Shape{kExamples, kChannels, kSteps}, -.1, .1), true, random);
  for (int64_t i = 0; i < x.elements(); ++i)
    x.data<double>()[i] += .4 * std::sin(.3 * static_cast<double>(i % kSteps) * (1 + static_cast<double>(i / kSteps) / 9));
  return x.to(Dtype::f32);
}

std::string of_type(const std::string& options) { return R"({"rate":8000,"unit":"samples",)" + options + "}"; }

// By the transform, example after example: [N, rows, frames].
Tensor transformed(const std::string& options, const Tensor& x, const std::vector<int64_t>& lengths) {
  Json::Array row(static_cast<size_t>(kSteps), Json(0.5));
  Json example = Json::array(), examples = Json::array();
  for (int64_t c = 0; c < kChannels; ++c) example.push(Json(row));
  examples.push(std::move(example));
  const Json arrays(Json::Object{{"type", "arrays"}, {"x", std::move(examples)}});
  const SourcePtr source = open_source(Config(arrays, "test", ErrorKind::data), ".");
  const Json json = Json::parse(of_type(options), "test");
  for (const TransformDef* def : transform_defs()) {
    if (json.find("type")->as_string() != def->type) continue;
    const auto transform = def->open(Config(json, def->schema, "test", ErrorKind::data), *source, 0);
    const Shape shape = transform->output().shape;
    Tensor y(Dtype::f32, Shape{x.shape()[0], shape[0], shape[1]});
    for (int64_t n = 0; n < x.shape()[0]; ++n) {
      int64_t steps = lengths[static_cast<size_t>(n)];
      Draw draw({}, 0);
      transform->apply_steps(reinterpret_cast<const std::byte*>(x.data<float>() + n * kChannels * kSteps),
                             reinterpret_cast<std::byte*>(y.data<float>() + n * shape[0] * shape[1]), &steps, draw);
    }
    return y;
  }
  ADD_FAILURE() << options;
  return {};
}

constexpr const char* kOptions[] = {
    R"("type":"spectrogram","window":200,"hop":80)",
    R"("type":"spectrogram","window":100,"hop":30,"power":1,"taper":"blackman_harris","pad":"reflect","preemphasis":0.9)",
    R"("type":"spectrogram","window":64,"hop":32,"fft":256,"center":false,"taper":"bartlett")",
    R"("type":"mel","window":200,"hop":80)",
    R"("type":"mel","window":200,"hop":80,"form":"htk","mels":23,"low":100,"high":3000,"deltas":1)",
    R"("type":"mel","window":128,"hop":50,"log":"none","scale":"htk","equal_area":false,"mels":12)",
    R"("type":"mfcc","window":200,"hop":80,"range":30,"lifter":22)",
    R"("type":"mfcc","window":120,"hop":60,"deltas":2,"delta_reach":3,"standardize":true,"pad":"reflect","range":0)",
    R"("type":"mfcc","window":200,"hop":80,"form":"htk","lifter":22,"deltas":2,"energy":true,"preemphasis":0.97)",
    R"("type":"mfcc","window":200,"hop":80,"coefficients":1,"energy":true)",
};

// Largest difference, as a share of the largest value.
template <class T>
double distance_of(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.shape(), expected.shape());
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < expected.elements() && i < got.elements(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected.data<float>()[i])));
    worst = std::max(worst, std::abs(static_cast<double>(got.data<T>()[i]) - static_cast<double>(expected.data<float>()[i])));
  }
  EXPECT_GT(largest, 0);
  return worst / largest;
}

struct SoundNetwork {
  explicit SoundNetwork(const char* options, int64_t steps, int64_t examples = kExamples) {
    network = Network(Json::parse("[" + of_type(options) + "]", "test"), "net.json")
                  .build(graph, {{"x", {Dtype::f64, Shape{kChannels, steps}}}, {"n", {Dtype::i64, Shape{}}, FieldRole::length, "x"}},
                         {.batch = examples, .training = true, .dtype = Dtype::f64});
  }
  Graph graph;
  BuiltNetwork network;
};

TEST(SoundLayers, GiveTheTransformsNumbers) {
  const Tensor x = waveforms();
  for (const char* options : kOptions) {
    SCOPED_TRACE(options);
    const Tensor expected = transformed(options, x, kLengths);
    EXPECT_LT(distance_of<float>(heard_by(of_type(options), x, kLengths), expected), 1e-5);
    const SoundNetwork wide(options, kSteps);
    Interpreter interpreter(wide.graph);
    interpreter.run({{"x", x.to(Dtype::f64)}, {"n", Tensor::from(Shape{kExamples}, kLengths)}});
    EXPECT_LT(distance_of<double>(interpreter[wide.network.outputs.at(0)], expected), 1e-5);
  }
}

TEST(SoundLayers, GiveTheTransformsNumbersOfWholeRecordings) {
  const Tensor x = waveforms();
  for (const char* options : kOptions) {
    SCOPED_TRACE(options);
    EXPECT_LT(distance_of<float>(heard_by(of_type(options), x), transformed(options, x, std::vector<int64_t>(kExamples, -1))), 1e-5);
  }
}

TEST(SoundLayers, TellWhichFramesCount) {
  const SoundNetwork built(kOptions[0], kSteps), late(kOptions[2], kSteps);  // with the middle and with the beginning at t * hop
  for (const auto& [sound, counts] : {std::pair{&built, std::vector<int64_t>{9, 5, 2, 1, 0}}, {&late, {20, 9, 2, 1, 0}}}) {
    Interpreter interpreter(sound->graph);
    interpreter.run({{"x", waveforms().to(Dtype::f64)}, {"n", Tensor::from(Shape{kExamples}, kLengths)}});
    const Tensor mask = interpreter[sound->network.masks.at(0)];
    ASSERT_EQ(mask.shape()[1], counts[0]);
    for (int64_t i = 0; i < mask.elements(); ++i)
      EXPECT_EQ(mask.data<double>()[i], i % counts[0] < counts[static_cast<size_t>(i / counts[0])]) << i;
  }
}

TEST(SoundLayers, HaveGradients) {
  for (const char* options :
       {R"("type":"spectrogram","window":8,"hop":3,"power":1,"log":"ln","pad":"reflect","preemphasis":0.9)",
        R"("type":"mel","window":16,"hop":6,"mels":4,"form":"htk","deltas":2)", R"("type":"mel","window":16,"hop":6,"mels":4,"range":10)",
        R"("type":"mfcc","window":16,"hop":4,"mels":5,"coefficients":3,"deltas":2,"energy":true,"lifter":4)",
        R"("type":"mfcc","window":16,"hop":4,"mels":5,"coefficients":3,"deltas":1,"standardize":true)"}) {
    SCOPED_TRACE(options);
    SoundNetwork built(options, 50, 3);
    std::mt19937_64 random(3);
    std::map<std::string, Tensor> leaves = {{"x", case_values(real(Shape{3, kChannels, 50}), true, random)},
                                            {"n", Tensor::from<int64_t>(Shape{3}, {50, 31, 0})}};
    const Value total = weighted_total(built.graph, built.network.outputs.at(0), "weights", leaves, random);
    check_gradients(built.graph, total, {"x"}, {built.graph.input("x", {Dtype::f64, Shape{3, kChannels, 50}})}, leaves, 1e-5, 24);
  }
}

// Bands of ones become 5: whole rows and whole steps, not wider than they may be, at other places in other examples; padding stays.
TEST(SoundLayers, HideBandsInTrainingAlone) {
  constexpr int64_t kRows = 20, kFrames = 30, kMany = 40;
  for (const bool training : {false, true}) {
    Graph graph;
    const BuiltNetwork network =
        Network(Json::parse(R"([{"type": "spec_augment", "rows": 4, "steps": 6, "fill": 5}])", "test"), "net.json")
            .build(graph, {{"x", {Dtype::f64, Shape{kRows, kFrames}}}, {"n", {Dtype::i64, Shape{}}, FieldRole::length, "x"}},
                   {.batch = kMany, .training = training, .dtype = Dtype::f64});
    Interpreter interpreter(graph);
    interpreter.step.training = training;
    const int64_t there = 25;
    interpreter.run({{"x", Tensor::from(Shape{kMany, kRows, kFrames}, std::vector<double>(kMany * kRows * kFrames, 1))},
                     {"n", Tensor::from(Shape{kMany}, std::vector<int64_t>(kMany, there))}});
    const Tensor y = interpreter[network.outputs.at(0)];
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t n = 0; n < kMany; ++n) {
      const double* of = y.data<double>() + n * kRows * kFrames;
      const auto hidden = [&](int64_t row, int64_t step) { return of[row * kFrames + step] == 5; };
      // A row is hidden where all its steps are, a step where all its rows are.
      std::vector<int64_t> rows, steps;
      for (int64_t r = 0; r < kRows; ++r) {
        int64_t count = 0;
        for (int64_t t = 0; t < kFrames; ++t) count += hidden(r, t);
        if (count == there) rows.push_back(r);
      }
      for (int64_t t = 0; t < kFrames; ++t) {
        int64_t count = 0;
        for (int64_t r = 0; r < kRows; ++r) count += hidden(r, t);
        if (count == kRows) steps.push_back(t);
      }
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t t = 0; t < kFrames; ++t)
          ASSERT_EQ(hidden(r, t), std::ranges::count(steps, t) > 0 || (t < there && std::ranges::count(rows, r) > 0)) << n;
      ASSERT_LE(rows.size(), 4u);
      ASSERT_LE(steps.size(), 6u);
      ASSERT_TRUE(steps.empty() || steps.back() < there);
      ASSERT_TRUE(rows.empty() || rows.back() - rows.front() + 1 == static_cast<int64_t>(rows.size()));
      seen.emplace(rows.empty() ? -1 : rows.front(), static_cast<int64_t>(steps.size()));
    }
    EXPECT_EQ(seen.size() > 10, training);
    EXPECT_TRUE(training || seen.size() == 1);
  }
}

// librosa 0.11: abs(librosa.stft([1, 2, 4, 8, 16, -3, 5], n_fft=4, win_length=3, hop_length=2, window=..., pad_mode=...)) ** 2.
TEST(SoundLayers, CentreOddWindowsAsLibrosa) {
  const Tensor x = Tensor::from<float>(Shape{1, 1, 7}, {1, 2, 4, 8, 16, -3, 5});
  for (const auto& [options, expected] :
       {std::pair(R"("taper":"none")", std::vector<float>{1, 49, 784, 324, 1, 13, 208, 130, 1, 9, 144, 576}),
        std::pair(R"("pad":"reflect")",
                  std::vector<float>{5.0625f, 20.25f, 324, 2.25f, 2.8125f, 11.25f, 180, 19.125f, 0.5625f, 2.25f, 36, 36})}) {
    HeardBy layer(R"({"type":"spectrogram","window":3,"hop":2,"fft":4,"unit":"samples","rate":8000,)" + std::string(options) + "}",
                  x.shape(), false);
    const Tensor y = contiguous_copy(layer(x));
    ASSERT_EQ(y.shape(), (Shape{1, 3, 4}));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(y.data<float>()[i], expected[i], 1e-3f) << options << ", " << i;
  }
}

}  // namespace
}  // namespace perigee
