// The embedding interface, through the C ABI where it differs from what perigee.hpp makes of it.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/api/support.h"

namespace {

TEST(Context, SaysItsVersion) { EXPECT_EQ(pg::version(), std::string(perigee_version())); }

TEST(Context, StructsOfOtherVersionsAreUnderstood) {
  perigee_context* context = nullptr;
  perigee_context_options options{};
  EXPECT_EQ(perigee_context_create(&options, &context), PERIGEE_USAGE) << "size is not set";
  EXPECT_EQ(context, nullptr);

  options.size = offsetof(perigee_context_options, log);  // an older header
  EXPECT_EQ(perigee_context_create(&options, &context), PERIGEE_OK);
  perigee_context_free(context);

  struct Newer {
    perigee_context_options known;
    uint64_t unknown;
  } newer{};
  newer.known.size = sizeof newer;
  EXPECT_EQ(perigee_context_create(&newer.known, &context), PERIGEE_OK) << "an option that is not used";
  perigee_context_free(context);
  newer.unknown = 1;
  EXPECT_EQ(perigee_context_create(&newer.known, &context), PERIGEE_USAGE);
}

TEST(Context, NullHandlesAreRefused) {
  perigee_job* job = nullptr;
  EXPECT_EQ(perigee_job_parse(nullptr, "{}", 2, PERIGEE_JSON, nullptr, nullptr, &job), PERIGEE_USAGE);
  EXPECT_EQ(perigee_trainer_step(nullptr, nullptr), PERIGEE_USAGE);
  EXPECT_EQ(perigee_model_tensor_count(nullptr), 0);
  EXPECT_STREQ(perigee_trainer_message(nullptr), "");
  perigee_trainer_free(nullptr);
  perigee_model_free(nullptr);
  perigee_job_free(nullptr);
  perigee_source_free(nullptr);
  perigee_context_free(nullptr);
  perigee_free(nullptr);
}

TEST(Context, FailuresLeaveNullAndAMessage) {
  perigee_context* context = nullptr;
  ASSERT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  auto* job = reinterpret_cast<perigee_job*>(context);
  EXPECT_EQ(perigee_job_parse(context, "{\"netwrok\": 1}", 14, PERIGEE_JSON, "mine.json", nullptr, &job), PERIGEE_MODEL);
  EXPECT_EQ(job, nullptr);
  EXPECT_NE(std::string(perigee_context_message(context)).find("mine.json"), std::string::npos);
  EXPECT_NE(std::string(perigee_context_message(context)).find("network"), std::string::npos);
  const std::string good = R"({"network": [{"type": "dense", "out": 1}], "data": {}})";
  std::thread([&] {
    ASSERT_EQ(perigee_job_parse(context, good.data(), good.size(), PERIGEE_JSON, "good.json", nullptr, &job), PERIGEE_OK);
    perigee_job_free(job);
  }).join();
  EXPECT_STRNE(perigee_context_message(context), "") << "another thread's success is not this one's";
  ASSERT_EQ(perigee_job_parse(context, good.data(), good.size(), PERIGEE_JSON, "good.json", nullptr, &job), PERIGEE_OK);
  EXPECT_STREQ(perigee_context_message(context), "");
  perigee_job_free(job);
  perigee_context_free(context);
}

TEST(Trainer, LearnsFromArraysInPlace) {
  const Quadrants data(2000);
  pg::trainer trainer(small_experiment(data.source()));
  int steps = 0, epochs = 0;
  EXPECT_TRUE(trainer.run([&](const pg::report& at) {
    EXPECT_EQ(at.step, ++steps);
    EXPECT_EQ(at.total, steps * 20);
    EXPECT_NEAR(at.progress, steps / 2000.0, 1e-12);
    epochs += at.epoch_ends;
  }));
  EXPECT_EQ(steps, 2000);
  EXPECT_EQ(epochs, 20);
  EXPECT_TRUE(trainer.finished());
  EXPECT_GT(trainer.evaluate("train").accuracy, 0.97);
  EXPECT_NE(trainer.evaluate("train").json.find("\"examples\":2000"), std::string::npos);
  failure([&] { trainer.evaluate("test"); }, PERIGEE_USAGE);

  const std::vector<float> probability = trainer.predict(std::vector<float>{0.5f, 0.5f, -0.5f, 0.5f});
  ASSERT_EQ(probability.size(), 4u);
  EXPECT_GT(probability[1], 0.9f);
  EXPECT_GT(probability[2], 0.9f);
  EXPECT_NEAR(probability[0] + probability[1], 1, 1e-5);
}

TEST(Trainer, ReleasesTheCallersMemoryOnce) {
  const Quadrants data(100);
  pg::context context;
  int released = 0;
  perigee_field fields[2] = {};
  fields[0] = {.size = sizeof fields[0], .name = "x", .rank = 1, .shape = {2}, .data = data.x.data()};
  fields[1] = {.size = sizeof fields[1], .name = "y", .dtype = PERIGEE_I64, .classes = 2, .data = data.y.data(), .stored = PERIGEE_U8};
  perigee_source* source = nullptr;
  const auto release = [](void* user) { ++*static_cast<int*>(user); };
  ASSERT_EQ(perigee_source_from_arrays(context.get(), 100, fields, 2, release, &released, &source), PERIGEE_OK);
  {
    pg::job job = pg::job(small_experiment(data.source()), context);
    job.check(perigee_job_bind(job.get(), "train", source));
    perigee_source_free(source);
    pg::trainer trainer(job);
    { const pg::job gone = std::move(job); }
    trainer.run(3);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  fields[1].classes = 1;
  EXPECT_EQ(perigee_source_from_arrays(context.get(), 100, fields, 2, release, &released, &source), PERIGEE_DATA) << "a label out of range";
  EXPECT_EQ(released, 1) << "what failed does not own the memory";
}

TEST(Trainer, FedWithTheSameBatchesItLearnsTheSame) {
  const Quadrants data(200);
  pg::experiment described = small_experiment(data.source());
  described.data.shuffle = false;
  pg::trainer reads(described);
  described.data.train = pg::fed({pg::declare("x", {2}), pg::declare_labels("y", 2)});
  pg::trainer fed(described);
  std::vector<int64_t> labels(data.y.begin(), data.y.end());
  for (int step = 0; step < 10; ++step) {
    const pg::report a = reads.step();
    const pg::report b = fed.feed({data.x.data() + step * 40, labels.data() + step * 20}, 20);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.accuracy, b.accuracy);
    EXPECT_EQ(b.step, step + 1);
  }
  EXPECT_EQ(all_parameters(reads.model()), all_parameters(fed.model()));
  // Any number of examples at a time; wrong ones are refused before anything happens.
  fed.feed({data.x.data(), labels.data()}, 7);
  labels[3] = 2;
  const auto before = all_parameters(fed.model());
  EXPECT_NE(failure([&] { fed.feed({data.x.data(), labels.data()}, 20); }, PERIGEE_DATA).find("label"), std::string::npos);
  failure([&] { fed.feed({data.x.data()}, 20); }, PERIGEE_USAGE);
  failure([&] { fed.feed({data.x.data(), labels.data()}, 0); }, PERIGEE_USAGE);
  EXPECT_NE(failure([&] { fed.step(); }, PERIGEE_USAGE).find("perigee_trainer_feed"), std::string::npos);
  EXPECT_EQ(all_parameters(fed.model()), before);
}

TEST(Trainer, NotFiniteLossKeepsTheParameters) {
  Quadrants data(40);
  data.x[25] = NAN;
  pg::experiment described = small_experiment(data.source());
  described.data.shuffle = false;
  pg::trainer trainer(described);
  const auto before = all_parameters(trainer.model());
  const std::string text = failure([&] { trainer.run(); }, PERIGEE_MODEL);
  EXPECT_NE(text.find("step 1"), std::string::npos) << text;
  EXPECT_EQ(all_parameters(trainer.model()), before);
}

TEST(Trainer, StopsAndContinues) {
  const Quadrants data(200);
  pg::trainer whole(small_experiment(data.source())), parts(small_experiment(data.source()));
  whole.run();
  EXPECT_FALSE(parts.run(13));
  EXPECT_FALSE(parts.run([&](const pg::report& at) { return at.step < 40; }));
  EXPECT_FALSE(parts.run([&](const pg::report& at) {
    if (at.step == 77) parts.stop();
  }));
  struct Mine {};
  EXPECT_THROW(parts.run([](const pg::report&) { throw Mine(); }), Mine);
  int64_t told = 0;
  EXPECT_TRUE(parts.run([&](const pg::report&) { ++told; }, 0, 50));
  EXPECT_LT(told, 30);
  EXPECT_EQ(all_parameters(whole.model()), all_parameters(parts.model()));
}

TEST(Trainer, CheckpointsContinueToTheSameBits) {
  const std::string folder = ::testing::TempDir() + "perigee_api_checkpoints";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Quadrants data(200);
  pg::experiment described = small_experiment(data.source());
  described.checkpoint = pg::options{{"every_steps", 25}, {"every_epochs", 0}, {"keep", 2}};
  pg::trainer whole(described);
  whole.run();
  {
    pg::trainer first(described, {.checkpoints = folder});
    EXPECT_FALSE(first.resume());
    first.run(60);  // saved at 25 and 50
    first.save_checkpoint(folder + "/mine.safetensors");
  }
  std::vector<std::string> warnings;
  pg::context context({.log = [&](const std::string& text) { warnings.push_back(text); }});
  std::fstream damaged(folder + "/step-000000000050.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(damaged);
  damaged.seekp(-5, std::ios::end);
  damaged.put('\x55');
  damaged.close();
  pg::trainer second(pg::job(described, context), {.checkpoints = folder});
  EXPECT_TRUE(second.resume());
  ASSERT_EQ(warnings.size(), 1u) << "the damaged generation is passed over, and said so";
  EXPECT_NE(warnings[0].find("step-000000000050"), std::string::npos);
  EXPECT_EQ(second.step().step, 26);
  second.load_checkpoint(folder + "/mine.safetensors");
  EXPECT_EQ(second.step().step, 61);
  EXPECT_TRUE(second.run());
  EXPECT_EQ(all_parameters(whole.model()), all_parameters(second.model()));
}

TEST(Job, TrainsWhole) {
  const Quadrants data(200);
  pg::experiment described = small_experiment(data.source());
  described.epochs = 2;
  described.data.test = data.source();
  int events = 0;
  const std::string end = pg::job(described).train([&](const std::string& event) { return ++events, event[0] == '{'; });
  EXPECT_GT(events, 3);
  EXPECT_NE(end.find("\"event\":\"end\""), std::string::npos) << end;
  EXPECT_NE(end.find("\"accuracy\""), std::string::npos) << end;
}

// A run advises what a program writes, not what stands after `perigee train`.
TEST(Job, AdvisesInTheWordsOfAProgram) {
  const std::string folder = ::testing::TempDir() + "perigee_api_advice";
  std::filesystem::remove_all(folder);
  const Quadrants data(100);
  pg::experiment described = small_experiment(data.source());
  described.epochs = 1;
  const pg::job job(described);
  job.train({}, {.threads = 1, .folder = folder});
  const std::string again = failure([&] { job.train({}, {.threads = 1, .folder = folder}); }, PERIGEE_USAGE);
  EXPECT_NE(again.find("continue it with resume = \"" + folder + "\", or choose another folder"), std::string::npos) << again;
  described.epochs = 2;  // as it is told
  pg::job(described).train({}, {.threads = 1, .folder = folder, .resume = folder});
}

TEST(Model, ReadsAndWritesParametersByName) {
  const Quadrants data(100);
  pg::trainer trainer(small_experiment(data.source()));
  pg::model model = trainer.model();
  const std::vector<pg::tensor_info> tensors = model.tensors();
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].name, "hidden.weight");
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{16, 2}));
  EXPECT_TRUE(tensors[0].trainable);
  EXPECT_EQ(model.output().shape, std::vector<int64_t>{2});
  std::vector<float> bias = model.read("out.bias");
  bias = {-40, 40};
  model.write("out.bias", bias);
  EXPECT_EQ(trainer.model().read("out.bias"), bias);
  EXPECT_GT(trainer.predict(std::vector<float>{0.1f, 0.2f})[1], 0.999f) << "what was written is what predicts";
  EXPECT_GT(trainer.step().loss, 5) << "and what trains";
  EXPECT_NE(failure([&] { model.read("out.bais"); }, PERIGEE_USAGE).find("out.bias"), std::string::npos);
  failure([&] { model.write("out.bias", std::vector<float>(3)); }, PERIGEE_USAGE);
}

TEST(Model, SavesToFilesAndMemory) {
  const Quadrants data(200);
  pg::trainer trainer(small_experiment(data.source()));
  trainer.run(100);
  const std::string path = ::testing::TempDir() + "perigee_api_model.safetensors";
  trainer.save(path);
  std::vector<std::byte> bytes = trainer.save();
  const std::vector<float> expected = trainer.predict(data.x);

  const pg::model from_file = pg::model::load(path), from_memory = pg::model::load(bytes);
  EXPECT_EQ(from_file.predict(data.x), expected);
  EXPECT_EQ(from_memory.predict(data.x), expected);
  EXPECT_EQ(pg::model::load(from_memory.save()).predict(data.x), expected) << "a loaded model saves itself";
  EXPECT_EQ(from_memory.save(), bytes);

  const auto fed = [&] { from_memory.predict(std::vector<float>(3)); };
  failure(fed, PERIGEE_USAGE);
  for (const size_t length : {size_t{0}, size_t{7}, size_t{8}, size_t{100}, bytes.size() / 2, bytes.size() - 1})
    failure([&] { pg::model::load(std::span(bytes).first(length)); }, PERIGEE_MODEL);
  bytes[bytes.size() - 3] ^= std::byte{1};
  failure([&] { pg::model::load(bytes); }, PERIGEE_MODEL);
}

}  // namespace
