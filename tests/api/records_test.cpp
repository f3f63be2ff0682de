// Prediction from records: the program, C, C++ and Lua give the same numbers for the same row.
#include <stdlib.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/api/support.h"

namespace {

constexpr const char* kRecord = R"({"city": "Rome", "size": 47})";

// A table with a column that the job drops, and a job that standardises what it reads.
class Houses : public testing::Test {
 protected:
  Houses() {
    char name[] = "/tmp/perigee-records-XXXXXX";
    folder_ = mkdtemp(name);
    std::ofstream table(file("houses.csv"));
    table << "id,size,city,price\n";
    for (int i = 0; i < 60; ++i) table << 1000 + i << "," << 40 + i << (i % 3 ? ",Rome," : ",Oslo,") << 100 + 3 * i << "\n";
    table.close();
    write("row.csv", "city,size\nRome,47\n");
    write("job.json", R"({"network": [{"type": "dense", "out": 4, "activation": "tanh", "name": "hidden"}, {"type": "dense", "out": 1}],
      "loss": "mse", "optimizer": {"type": "adam", "lr": 0.01}, "epochs": 2, "seed": 3, "threads": 1, "data": {"batch": 20,
      "train": {"type": "map", "source": {"type": "csv", "file": ")" +
                          file("houses.csv") + R"(", "target": "price", "drop": ["id"]},
                "transforms": [{"type": "standardize"}]}}})");
    pg::trainer trainer(pg::job::load(file("job.json")));
    trainer.run();
    trainer.save(file("model.safetensors"));
  }
  ~Houses() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }

  // Standard output of the program.
  std::string printed(const std::string& arguments) const {
    const std::string command = "cd " + folder_ + " && " + std::string(getenv("PERIGEE_PROGRAM")) + " " + arguments;
    std::string text;
    std::FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
    EXPECT_EQ(pclose(pipe), 0) << command << "\n" << text;
    return text;
  }

  static float number_after(const std::string& text, const std::string& key) {
    const size_t at = text.find(key);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? 0 : std::strtof(text.c_str() + at + key.size(), nullptr);
  }

  std::string folder_;
};

// The C functions alone.
float predicted_in_c(const std::string& model_path, const std::string& records, std::string* layer) {
  perigee_context* context = nullptr;
  perigee_model* model = nullptr;
  perigee_prediction* prediction = nullptr;
  EXPECT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  EXPECT_EQ(perigee_model_load(context, model_path.c_str(), &model), PERIGEE_OK);
  const char* layers[] = {"hidden"};
  perigee_predict_options options{};
  options.size = sizeof options;
  options.layers = layers;
  options.layer_count = 1;
  EXPECT_EQ(perigee_model_predict_records(model, records.data(), records.size(), &options, &prediction), PERIGEE_OK)
      << perigee_model_message(model);
  EXPECT_EQ(perigee_prediction_examples(prediction), 1);
  EXPECT_EQ(perigee_prediction_row(prediction, 0), 0);
  EXPECT_EQ(perigee_prediction_row(prediction, 1), -1);
  EXPECT_EQ(perigee_prediction_output_count(prediction), 2);
  perigee_prediction_output_info info{}, second{};
  info.size = second.size = sizeof info;
  EXPECT_EQ(perigee_prediction_output(prediction, 0, &info), PERIGEE_OK);
  EXPECT_EQ(perigee_prediction_output(prediction, 1, &second), PERIGEE_OK);
  EXPECT_EQ(perigee_prediction_output(prediction, 2, &second), PERIGEE_USAGE);
  EXPECT_EQ(perigee_prediction_class_name(prediction, 0, 0), nullptr) << "this is no classifier";
  EXPECT_EQ(second.shape[0], 4);
  EXPECT_EQ(second.layer, 1);
  *layer = second.name;
  const float number = *static_cast<const float*>(info.data);
  perigee_prediction_free(prediction);
  perigee_model_free(model);
  perigee_context_free(context);
  return number;
}

TEST_F(Houses, TheSameRowGivesTheSameNumberEverywhere) {
  const std::string line = printed("predict model.safetensors row.csv --json --layer hidden");
  const float expected = number_after(line, "\"values\":[");
  std::string layer;
  EXPECT_EQ(predicted_in_c(file("model.safetensors"), kRecord, &layer), expected);
  EXPECT_EQ(layer, "hidden");

  const pg::model model = pg::model::load(file("model.safetensors"));
  const pg::prediction record = model.predict_record({{"size", 47}, {"city", "Rome"}}, {.layers = {"hidden"}});
  EXPECT_EQ(record.output().of(0)[0], expected);
  // By hand: each number less its mean, over its deviation, among the 60 rows.
  const float size = (47 - 69.5f) / std::sqrt((60 * 60 - 1) / 12.f), city = std::sqrt(0.5f);
  EXPECT_NEAR(model.predict(std::vector<float>{size, -city, city})[0], expected, 1e-4f);
  EXPECT_GT(std::abs(model.predict(std::vector<float>{47, 0, 1})[0] - expected), 1e-4f) << "raw numbers are not standardised";
  EXPECT_EQ(record.output("hidden").values[1], std::strtof(line.c_str() + line.find(',', line.find("\"hidden\":[")) + 1, nullptr));
  EXPECT_EQ(model.predict_file(file("row.csv")).output().values, std::vector<float>{expected});
  EXPECT_EQ(model.predict_records("size,city\n47,Rome\n").output().values, std::vector<float>{expected});
  EXPECT_EQ(number_after(record.json(), "\"values\":["), expected);

  write("predict.lua", R"(
    local run = pg.start("job.json", { folder = false, threads = 1 })
    run:wait()
    local one = run:predict({ size = 47, city = "Rome" }, { layers = { "hidden" } })
    print(("one %.9g"):format(one.values[1]), #one.layers.hidden)
    print(("file %.9g"):format(run:predict("row.csv")[1].values[1]))
    print(("list %.9g"):format(run:predict({ { size = 47, city = "Rome" } })[1].values[1]))
  )");
  const std::string told = printed("repl predict.lua -e 0 < /dev/null");
  for (const char* key : {"one ", "file ", "list "}) EXPECT_EQ(number_after(told, key), expected) << key;
}

// The default context writes no log: unknown values are listed in the prediction too.
TEST_F(Houses, WhatIsUnknownStandsInThePrediction) {
  const pg::model model = pg::model::load(file("model.safetensors"));
  EXPECT_TRUE(model.predict_record({{"size", 47}, {"city", "Rome"}}).warnings().empty());
  const std::vector<std::string> warnings = model.predict_records("size,city\n47,Rome\n50,Bern\n51,Bern\n").warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("'city'"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("'Bern'"), std::string::npos) << warnings[0];

  perigee_prediction* prediction = nullptr;
  const std::string records = R"({"city": "Bern", "size": 47})";
  ASSERT_EQ(perigee_model_predict_records(model.get(), records.data(), records.size(), nullptr, &prediction), PERIGEE_OK);
  EXPECT_EQ(perigee_prediction_warning_count(prediction), 1);
  EXPECT_NE(std::string(perigee_prediction_warning(prediction, 0)).find("'Bern'"), std::string::npos);
  for (const int32_t none : {-1, 1}) EXPECT_EQ(perigee_prediction_warning(prediction, none), nullptr);
  perigee_prediction_free(prediction);
  EXPECT_EQ(perigee_prediction_warning_count(nullptr), 0);
  EXPECT_EQ(perigee_prediction_warning(nullptr, 0), nullptr);
}

TEST_F(Houses, ATrainerPredictsRecordsBetweenSteps) {
  pg::trainer trainer(pg::job::load(file("job.json")));
  trainer.run();
  EXPECT_EQ(trainer.model().predict_record({{"size", 47}, {"city", "Rome"}}).output().values,
            pg::model::load(file("model.safetensors")).predict_record({{"size", 47}, {"city", "Rome"}}).output().values);
}

// A model trained with ctc: C, C++ and Lua give the labels that the program prints.
TEST_F(Houses, LabelSequencesComeToEveryLanguage) {
  std::string x, y, n;
  for (int i = 0; i < 16; ++i) {
    x += std::string(i ? "," : "") + (i % 2 ? "[[2,2,0,1,1,0,0,0]]" : "[[1,1,0,2,2,0,1,1]]");
    y += std::string(i ? "," : "") + (i % 2 ? "[2,1,-1]" : "[1,2,1]");
    n += std::string(i ? "," : "") + (i % 2 ? "8" : "7");
  }
  const std::string arrays = R"("x": [)" + x + R"(], "n": [)" + n + "]";
  write("reader.json", R"({"network": [{"type": "conv1d", "out": 6, "kernel": 3, "padding": "same", "activation": "tanh"},
    {"type": "conv1d", "out": 3, "kernel": 1}], "loss": "ctc", "optimizer": {"type": "adam", "lr": 0.05}, "epochs": 20, "seed": 3,
    "data": {"batch": 4, "lengths": {"x": "n"}, "train": {"type": "arrays", "class_names": ["<none>", "a", "b"], "y": [)" +
                           y + "], " + arrays + "}}}");
  pg::trainer trainer(pg::job::load(file("reader.json")));
  trainer.run();
  trainer.save(file("reader.safetensors"));
  const pg::model model = pg::model::load(file("reader.safetensors"));
  const std::string records = R"([{"x": [[1,1,0,2,2,0,1,1]], "n": 7}, {"x": [[2,2,0,1,1,0,0,0]], "n": 8}])";
  const pg::prediction got = model.predict_records(records, {.beams = 4});
  EXPECT_EQ(got.labels(0), (std::vector<int64_t>{1, 2, 1}));
  EXPECT_EQ(got.labels(1), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(got.output().class_names, (std::vector<std::string>{"<none>", "a", "b"}));
  EXPECT_NE(got.json().find("\"text\":\"aba\""), std::string::npos) << got.json();
  EXPECT_NE(got.json().find("\"alternatives\""), std::string::npos) << got.json();
  EXPECT_EQ(model.predict_records(records).json().find("alternatives"), std::string::npos);
  EXPECT_NE(failure([&] { model.predict_records(records, {.beams = -1}); }, PERIGEE_USAGE).find("1 to 1000"), std::string::npos);

  perigee_prediction* prediction = nullptr;
  ASSERT_EQ(perigee_model_predict_records(model.get(), records.data(), records.size(), nullptr, &prediction), PERIGEE_OK);
  const int64_t* labels = nullptr;
  EXPECT_EQ(perigee_prediction_labels(prediction, 1, &labels), 2);
  EXPECT_TRUE(labels && labels[0] == 2 && labels[1] == 1);
  EXPECT_EQ(perigee_prediction_labels(prediction, 2, &labels), -1);
  EXPECT_EQ(labels, nullptr);
  EXPECT_EQ(perigee_prediction_labels(nullptr, 0, nullptr), -1);
  perigee_prediction_free(prediction);
}

// Two labels with names of their own, learned by two outputs.
TEST_F(Houses, EachOutputHasItsClassNamesInEveryLanguage) {
  write("heads.json", R"({"network": {"type": "graph", "inputs": ["x"], "outputs": ["kind", "size"], "nodes": [
      {"name": "kind", "layer": {"type": "dense", "out": 3}, "inputs": ["x"]},
      {"name": "size", "layer": {"type": "dense", "out": 2}, "inputs": ["x"]}]},
    "loss": {"kind": "cross_entropy", "size": {"type": "cross_entropy", "target": "size"}}, "optimizer": {"type": "adam", "lr": 0.1},
    "epochs": 100, "seed": 3, "threads": 1, "data": {"batch": 4, "train": {"type": "arrays", "x": [[0, 0], [0, 1], [1, 0], [1, 1]],
      "y": [0, 1, 2, 1], "size": [0, 0, 1, 1], "class_names": {"y": ["cat", "dog", "emu"], "size": ["small", "large"]}}}})");
  pg::trainer trainer(pg::job::load(file("heads.json")));
  trainer.run();
  trainer.save(file("heads.safetensors"));
  const std::string record = R"([{"x": [1, 0]}])";
  const pg::prediction got = pg::model::load(file("heads.safetensors")).predict_records(record);
  EXPECT_EQ(got.output("kind").class_names, (std::vector<std::string>{"cat", "dog", "emu"}));
  EXPECT_EQ(got.output("size").class_names, (std::vector<std::string>{"small", "large"}));
  EXPECT_NE(got.json().find(R"("label":"emu")"), std::string::npos) << got.json();
  EXPECT_NE(got.json().find(R"("label":"large")"), std::string::npos) << got.json();

  perigee_context* context = nullptr;
  perigee_model* model = nullptr;
  ASSERT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  ASSERT_EQ(perigee_model_load(context, file("heads.safetensors").c_str(), &model), PERIGEE_OK);
  perigee_prediction* prediction = nullptr;
  ASSERT_EQ(perigee_model_predict_records(model, record.data(), record.size(), nullptr, &prediction), PERIGEE_OK);
  EXPECT_STREQ(perigee_prediction_class_name(prediction, 0, 2), "emu");
  EXPECT_STREQ(perigee_prediction_class_name(prediction, 1, 1), "large");
  EXPECT_EQ(perigee_prediction_class_name(prediction, 1, 2), nullptr);
  perigee_prediction_free(prediction);
  perigee_model_free(model);
  perigee_context_free(context);
}

TEST_F(Houses, ARunFolderStandsForItsModel) {
  std::string layer;
  EXPECT_EQ(predicted_in_c(folder_, kRecord, &layer), predicted_in_c(file("model.safetensors"), kRecord, &layer));
  EXPECT_EQ(pg::model::load(folder_ + "/").predict_records(kRecord).output().of(0)[0], predicted_in_c(folder_, kRecord, &layer));
  std::filesystem::remove(file("model.safetensors"));
  const std::string text = failure([&] { pg::model::load(folder_); }, PERIGEE_USAGE);
  EXPECT_NE(text.find("this folder has no model.safetensors; expected a model, or the folder of a finished run"), std::string::npos)
      << text;
}

TEST_F(Houses, SaysWhatIsMissingAndWhatIsUnknown) {
  std::vector<std::string> warnings;
  const pg::context context({.log = [&](const std::string& text) { warnings.push_back(text); }});
  const pg::model model = pg::model::load(file("model.safetensors"), context);
  const auto lacking = [&] { model.predict_record({{"price", 1}}); };
  EXPECT_NE(failure(lacking, PERIGEE_DATA).find("2 columns are missing: 'size', 'city'"), std::string::npos)
      << failure(lacking, PERIGEE_DATA);
  failure([&] { model.predict_records(""); }, PERIGEE_DATA);
  failure([&] { model.predict_file(file("none.csv")); }, PERIGEE_USAGE);
  failure([&] { model.predict_record({{"size", 1}, {"city", "Rome"}}, {.layers = {"nothing"}}); }, PERIGEE_USAGE);
  EXPECT_TRUE(warnings.empty());
  for (int i = 0; i < 2; ++i) model.predict(std::vector<float>{47, 0, 1});
  ASSERT_EQ(warnings.size(), 1u) << "raw numbers are told of once";
  EXPECT_NE(warnings[0].find("taken raw"), std::string::npos) << warnings[0];
  warnings.clear();
  model.predict_record({{"size", 1}, {"city", "Berlin"}});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("'Berlin'"), std::string::npos);
  perigee_prediction* prediction = nullptr;
  EXPECT_EQ(perigee_model_predict_file(nullptr, "x", nullptr, &prediction), PERIGEE_USAGE);
  EXPECT_EQ(perigee_model_predict_file(model.get(), nullptr, nullptr, &prediction), PERIGEE_USAGE);
  perigee_predict_options wrong{};
  wrong.size = sizeof wrong;
  wrong.format = 99;
  EXPECT_EQ(perigee_model_predict_records(model.get(), "x", 1, &wrong, &prediction), PERIGEE_USAGE);
}

}  // namespace
