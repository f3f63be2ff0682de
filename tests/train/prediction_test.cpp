// Prediction from records: the stored preprocessing, every output by name, inner layers, however the records come.
#include "src/model/prediction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "src/core/warning.h"
#include "src/data/transform.h"
#include "src/io/npy.h"
#include "src/run/checkpoint.h"
#include "src/train/trainer.h"
#include "tests/core/refusal.h"
#include "tests/data/wav_file.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

std::string houses() {
  std::string table = "id,size,city,price\n";
  for (int i = 0; i < 60; ++i)
    table += std::to_string(1000 + i) + "," + std::to_string(40 + i) + (i % 3 ? ",Rome," : ",Oslo,") + std::to_string(100 + 3 * i) + "\n";
  return table;
}

Json house_job() {
  return Json::parse(R"({"network": [{"type": "dense", "out": 4, "activation": "tanh", "name": "hidden"}, {"type": "dense", "out": 1}],
    "loss": "mse", "optimizer": {"type": "adam", "lr": 0.01}, "epochs": 1, "seed": 3,
    "data": {"batch": 20, "train": {"type": "map", "source": {"type": "csv", "file": "houses.csv", "target": "price", "drop": ["id"]},
             "transforms": [{"type": "standardize"}]}}})",
                     "job");
}

// A model and what stands around it, as `perigee predict` has them.
struct Loaded {
  TemporaryFolder folder;
  LoadedModel model;
  ThreadTeam team{2};

  explicit Loaded(const Json& job, const std::string& table = houses()) {
    write_file(folder / "houses.csv", as_bytes(table));
    Trainer trainer(Job(job, "job", folder.path()), {.threads = 1});
    trainer.run(std::atomic<bool>(false));
    save_model(trainer, folder / "model.safetensors");
    model = load_model(folder / "model.safetensors");
  }
  RecordReader reader() const { return {model.model->spec(), model.job, model.fitted}; }
  Predictions predict(const Records& records, const std::vector<std::string>& layers = {}) {
    return RecordPredictor(*model.model, model.class_names, team, {}, {.layers = layers}).all(records);
  }
  Predictions predict(const std::string& text, RecordFormat format = RecordFormat::automatic, const std::vector<std::string>& layers = {}) {
    return predict(reader().open(as_bytes(text), format, "records"), layers);
  }
};

TEST(Prediction, TheSameRowGivesTheSameNumberHoweverItComes) {
  Loaded loaded(house_job());
  const Predictions whole = loaded.predict(loaded.reader().open_file(loaded.folder / "houses.csv"));
  ASSERT_EQ(whole.examples(), 60);
  const double expected = example_values(whole.values[0], 7)[0];
  const auto number = [](const Predictions& got) { return example_values(got.values.at(0), 0).at(0); };
  EXPECT_EQ(number(loaded.predict("city,size\nRome,47\n")), expected);
  EXPECT_EQ(number(loaded.predict(R"({"size": 47, "city": "Rome"})")), expected);
  EXPECT_EQ(number(loaded.predict(loaded.reader().open(Json::parse(R"([{"size": 47, "city": "Rome"}])", "r"), "r"))), expected);
  const Bytes array = npy_bytes(Tensor::from<float>({1, 3}, {47, 0, 1}));
  EXPECT_EQ(number(loaded.predict(std::string(as_text(array)))), expected) << "an array goes through the transforms, too";
  EXPECT_NE(number(loaded.predict("city,size\nRome,48\n")), expected);
}

TEST(Prediction, GivesInnerLayersByName) {
  Loaded loaded(house_job());
  const Predictions got = loaded.predict(R"({"size": 47, "city": "Rome"})", RecordFormat::json, {"hidden"});
  ASSERT_EQ(got.outputs.size(), 2u);
  EXPECT_TRUE(got.outputs[1].layer);
  const std::vector<double> hidden = example_values(got.values[1], 0);
  ASSERT_EQ(hidden.size(), 4u);
  // The last layer is linear: from what the hidden one gives it makes the output.
  const Params& params = loaded.model.model->params();
  const float* weight = nullptr;
  double sum = 0;
  for (size_t i = 0; i < params.specs().size(); ++i) {
    const auto* values = reinterpret_cast<const float*>(params.parameter_tensor(static_cast<int>(i)).view().data);
    if (params.specs()[i].name == "dense1.weight" || params.specs()[i].name == "dense2.weight") weight = values;
    if (params.specs()[i].name == "dense1.bias" || params.specs()[i].name == "dense2.bias") sum += values[0];
  }
  ASSERT_NE(weight, nullptr);
  for (size_t i = 0; i < 4; ++i) sum += weight[i] * hidden[i];
  EXPECT_NEAR(sum, example_values(got.values[0], 0)[0], 1e-4);
  EXPECT_EQ(got.json(0).find("layers")->find("hidden")->as_array().size(), 4u);
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { loaded.predict("size,city\n1,Rome\n", RecordFormat::csv, {"hiden"}); }),
             "did you mean 'hidden'");
}

TEST(Prediction, WarnsOnceOfWhatTheTrainingDataHadNot) {
  Loaded loaded(house_job());
  std::vector<std::string> warnings;
  set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  loaded.predict("city,size\nBerlin,47\nParis,47\n");
  set_warning_handler({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "column 'city': 2 values");
}

// Class names, and the two heads of a graph by their names, each with its own link.
TEST(Prediction, GivesAllOutputsByName) {
  std::string table = "size,weight,kind\n";
  for (int i = 0; i < 40; ++i) table += std::to_string(i) + "," + std::to_string(40 - i) + (i % 2 ? ",cat\n" : ",dog\n");
  Loaded loaded(Json::parse(R"({"network": {"type": "graph", "inputs": ["x"], "outputs": ["kind", "again"], "nodes": [
      {"name": "h", "layer": {"type": "dense", "out": 4, "activation": "tanh"}, "inputs": ["x"]},
      {"name": "kind", "layer": {"type": "dense", "out": 2}, "inputs": ["h"]},
      {"name": "again", "layer": {"type": "dense", "out": 2}, "inputs": ["h"]}]},
    "loss": {"kind": {"type": "cross_entropy", "target": "y"}, "again": {"type": "cross_entropy", "target": "y"}}, "optimizer": "adam", "epochs": 1,
    "data": {"batch": 20, "train": {"type": "csv", "file": "houses.csv"}}})",
                            "job"),
                table);
  const Predictions got = loaded.predict("weight,size\n3,4\n5,6\n");
  ASSERT_EQ(got.outputs.size(), 2u);
  EXPECT_EQ(got.outputs[0].name, "kind");
  EXPECT_EQ(got.outputs[1].name, "again");
  EXPECT_EQ(got.outputs[0].class_names, (std::vector<std::string>{"cat", "dog"}));
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<double> p = class_probabilities(got.outputs[i], got.values[i], 1);
    ASSERT_EQ(p.size(), 2u);
    EXPECT_NEAR(p[0] + p[1], 1, 1e-6) << "probabilities of output " << i;
  }
  const Json json = got.json(1);
  EXPECT_EQ(json.find("index")->as_int(), 1);
  EXPECT_EQ(*json.find("label"), *json.find("outputs")->find("kind")->find("label"));
  EXPECT_NE(json.find("outputs")->find("again"), nullptr);
}

// Each field that is a label has names of its own; so has the output that learns it, in a trainer, a saved model and a model saved again.
TEST(Prediction, EachOutputHasTheClassNamesOfItsTarget) {
  const TemporaryFolder folder;
  Trainer trainer(Job(Json::parse(R"({"network": {"type": "graph", "inputs": ["x"], "outputs": ["size", "kind", "shade"], "nodes": [
      {"name": "size", "layer": {"type": "dense", "out": 2}, "inputs": ["x"]},
      {"name": "kind", "layer": {"type": "dense", "out": 3}, "inputs": ["x"]},
      {"name": "shade", "layer": {"type": "dense", "out": 4}, "inputs": ["x"]}]},
    "loss": {"kind": {"type": "cross_entropy", "target": "y"}, "size": {"type": "cross_entropy", "target": "s"},
             "shade": {"type": "cross_entropy", "target": "shade"}}, "optimizer": "adam", "epochs": 1,
    "data": {"batch": 3, "train": {"type": "arrays", "x": [[1, 2], [2, 1], [0, 1]], "y": [0, 2, 1], "s": [1, 0, 1], "shade": [0, 3, 1],
             "class_names": {"y": ["cat", "dog", "emu"], "s": ["small", "large"], "shade": 4}}}})",
                                  "job"),
                      "job"),
                  {.threads = 1});
  const auto checks = [](const std::vector<PredictedOutput>& outputs) {
    ASSERT_EQ(outputs.size(), 3u);
    EXPECT_EQ(outputs[0].class_names, (std::vector<std::string>{"cat", "dog", "emu"}));
    for (size_t i = 1; i < 3; ++i) {
      const bool size = outputs[i].name == "size";
      EXPECT_EQ(outputs[i].classes, size ? 2 : 4);
      EXPECT_EQ(outputs[i].class_names, size ? (std::vector<std::string>{"small", "large"}) : std::vector<std::string>());
    }
  };
  checks(trainer.record_predictor({}).outputs());
  save_model(trainer, folder / "m.safetensors");
  save_model(load_model(folder / "m.safetensors"), folder / "again.safetensors");
  for (const char* file : {"m.safetensors", "again.safetensors"}) {
    const LoadedModel loaded = load_model(folder / file);
    checks(predicted_outputs(*loaded.model, loaded.class_names, {}));
  }
}

TEST(Prediction, ATrainerPredictsAsItsSavedModelDoes) {
  const TemporaryFolder folder;
  write_file(folder / "houses.csv", as_bytes(houses()));
  Trainer trainer(Job(house_job(), "job", folder.path()), {.threads = 1});
  trainer.run(std::atomic<bool>(false));
  save_model(trainer, folder / "model.safetensors");
  const LoadedModel loaded = load_model(folder / "model.safetensors");
  ThreadTeam team(1);
  const Json record = Json::parse(R"({"size": 47, "city": "Rome"})", "r");
  const Records from_file = RecordReader(loaded.model->spec(), loaded.job, loaded.fitted).open(record, "r");
  const Predictions saved = RecordPredictor(*loaded.model, loaded.class_names, team).all(from_file);
  const Predictions live = trainer.record_predictor({.layers = {"hidden"}}).all(trainer.record_reader().open(record, "r"));
  EXPECT_EQ(example_values(live.values[0], 0), example_values(saved.values[0], 0));
  EXPECT_EQ(live.outputs.size(), 2u);
}

TEST(Prediction, JudgesOtherTablesByTheJob) {
  Loaded loaded(house_job());
  write_file(loaded.folder / "new.csv", as_bytes("price,extra,city,size\n121,9,Rome,47\n"));
  const auto x = [&](const SourcePtr& source) {
    std::vector<float> values(3);
    float y = 0;
    std::byte* const slots[] = {reinterpret_cast<std::byte*>(values.data()), reinterpret_cast<std::byte*>(&y)};
    source->read({.index = 0}, slots);
    values.push_back(y);
    return values;
  };
  const std::vector<float> given =
      x(loaded.reader().open_labelled(Json::parse(R"({"type": "csv", "file": "new.csv"})", "d"), "--data", loaded.folder.path()));
  EXPECT_LT(std::abs(given[0]), 3) << "standardised by the training data";
  EXPECT_EQ(given[3], 121);
  EXPECT_EQ(x(loaded.reader().open_labelled_table(as_bytes("size,price,city\n47,121,Rome\n"), "stdin")), given);
  EXPECT_EQ(x(loaded.reader().open_labelled_table(as_bytes(R"({"size": 47, "price": 121, "city": "Rome"})"), "stdin")), given);
}

TEST(Prediction, SaysWhatTheModelDoesNotTake) {
  Loaded loaded(house_job());
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { loaded.reader().open_file(loaded.folder / "none.csv"); }), "there is no such file");
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { loaded.reader().open_file(loaded.folder.path()); }), "is a folder");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { loaded.reader().open({}, RecordFormat::automatic, "r"); }), "r: it is empty");
  EXPECT_HAS(refusal(ErrorKind::usage, [&] { loaded.predict("some text", RecordFormat::text); }), "the model does not read text");
  EXPECT_HAS(refusal(ErrorKind::data,
                     [&] {
                       loaded.predict(std::string(as_text(npy_bytes(Tensor(Dtype::f32, {2, 9})))));
                     }),
             "do not fit field 'x' of shape 9");
  EXPECT_EQ(loaded.reader().files_in(loaded.folder.path()), (std::vector<std::string>{loaded.folder / "houses.csv"}));
}

// --- Recordings ----------------------------------------------------------------------------------------------------------------

std::vector<float> first_field(const DataSource& source, int64_t index) {
  std::vector<float> x(static_cast<size_t>(source.fields()[0].shape.elements()));
  int64_t others[2] = {};
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(others),
                              reinterpret_cast<std::byte*>(others + 1)};
  source.read({.index = index}, std::span(slots, source.fields().size()));
  return x;
}

Json recording_job(const Json& source) {
  Json job = Json::parse(R"({"network": [{"type": "global_pool"}, {"type": "dense", "out": 2}], "loss": "cross_entropy",
    "optimizer": {"type": "sgd", "lr": 0.01}, "epochs": 1, "seed": 3, "data": {"batch": 2}})",
                         "job");
  job.find("data")->set("train", source);
  return job;
}

// Every transform that takes recordings: what the model hears of a file is what training made of it, without what is drawn.
TEST(Prediction, HearsRecordingsAsTrainingDoes) {
  const TemporaryFolder folder;
  const std::map<std::string, int> seconds = {{"no/1.wav", 1500}, {"no/2.wav", 1100}, {"yes/1.wav", 1300}, {"yes/2.wav", 900}};
  for (const auto& [name, steps] : seconds) {
    std::string samples;
    for (int i = 0; i < 2 * steps; ++i) samples += static_cast<char>(i < 1000 ? 0 : i * 7919 % 251);
    write_file(folder / ("sounds/" + name), as_bytes(wav_of({.rate = 8000}, samples)));
  }
  const Json plain = Json::parse(R"({"type": "audio", "folder": "sounds", "seconds": 0.15, "rate": 4000})", "data");
  int heard = 0;
  for (const TransformDef* def : transform_defs()) {
    SCOPED_TRACE(def->type);
    Json transforms = Json::array();
    transforms.push(Json(Json::Object{{"type", def->type}}));
    Json both = transforms;  // no random transform is alone: the model takes its result as if it were not there
    both.push(Json::parse(R"({"type": "mel", "mels": 8, "rate": 4000})", "transform"));
    const Json map(Json::Object{{"type", "map"}, {"source", plain}, {"transforms", def->random ? both : transforms}});
    const Json job = recording_job(map);
    std::unique_ptr<Trainer> trainer;
    try {
      trainer = std::make_unique<Trainer>(Job(job, "job", folder.path()), TrainerOptions{.threads = 1});
    } catch (const Error&) {
      continue;  // of pictures or tables
    }
    ++heard;
    trainer->run(std::atomic<bool>(false));
    save_model(*trainer, folder / "model.safetensors");
    const LoadedModel loaded = load_model(folder / "model.safetensors");
    const RecordReader reader(loaded.model->spec(), loaded.job, loaded.fitted);
    Json quiet = map;
    if (def->random) {
      auto& list = quiet.find("transforms")->as_array();
      list.erase(list.begin());
    }
    const SourcePtr training = open_source(Config(quiet, "data", ErrorKind::data), folder.path());
    const Records file = reader.open_file(folder / "sounds/yes/1.wav");
    const Records bytes = reader.open(read_file(folder / "sounds/yes/1.wav"), RecordFormat::automatic, "request");
    EXPECT_EQ(first_field(*file.source, 0), first_field(*training, 2));
    EXPECT_EQ(first_field(*bytes.source, 0), first_field(*training, 2));
    const SourcePtr judged = reader.open_labelled(reader.describe(folder / "sounds"), "sounds", folder.path());
    EXPECT_EQ(first_field(*judged, 2), first_field(*training, 2)) << "a folder of recordings is recordings";
    ThreadTeam team{2};
    const Predictions answers = RecordPredictor(*loaded.model, loaded.class_names, team, {}, {}).all(bytes);
    EXPECT_EQ(answers.examples(), 1);
  }
  EXPECT_GE(heard, 9) << "gain, mel, mfcc, noise, spec_augment, spectrogram, speed, time_shift, voice";
}

}  // namespace
}  // namespace perigee
