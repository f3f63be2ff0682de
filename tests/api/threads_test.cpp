// Embedded in programs with threads of their own: several trainings, one handle in several hands, streams.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/api/support.h"

namespace {

TEST(Threads, TwoTrainingsAtOnceAreThoseOfEachAlone) {
  const Quadrants data(500);
  const auto train = [&](int seed) {
    pg::experiment described = small_experiment(data.source());
    described.seed = seed;
    described.epochs = 4;
    pg::trainer trainer(described);
    trainer.run();
    return all_parameters(trainer.model());
  };
  const std::vector<float> alone[] = {train(1), train(2)};
  std::vector<float> together[2];
  std::thread first([&] { together[0] = train(1); }), second([&] { together[1] = train(2); });
  first.join();
  second.join();
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
  EXPECT_NE(alone[0], alone[1]);
}

TEST(Threads, MessagesBelongToHandlesAndCallers) {
  const pg::context context;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const std::string name = "job-" + std::to_string(i);
      for (int round = 0; round < 50; ++round) {
        const pg::job job = pg::job::parse(R"({"network": {"type": "sequential", "layers": []}})", PERIGEE_JSON, name, context);
        perigee_trainer* trainer = nullptr;
        if (perigee_trainer_create(job.get(), nullptr, &trainer) == PERIGEE_OK) ++wrong;
        if (std::string(perigee_job_message(job.get())).find(name) == std::string::npos) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A prompt, a server or a plot looks at a training that goes on.
TEST(Threads, OthersGetTheirTurnBetweenSteps) {
  const Quadrants data(1000);
  pg::experiment described = small_experiment(data.source());
  described.epochs = 100000;
  pg::trainer trainer(described);
  std::atomic<int64_t> step = 0;
  std::thread training([&] { EXPECT_FALSE(trainer.run([&](const pg::report& at) { step = at.step; })); });
  while (step == 0) std::this_thread::yield();
  const pg::model model = trainer.model();
  std::vector<float> before = all_parameters(model);
  for (int round = 0; round < 20; ++round) {
    const int64_t seen = step;
    while (step == seen) std::this_thread::yield();
    const std::vector<float> after = all_parameters(model);
    EXPECT_NE(after, before) << "training goes on";
    before = after;
    EXPECT_EQ(trainer.predict(std::vector<float>{0.1f, 0.2f}).size(), 2u);
  }
  EXPECT_GT(trainer.evaluate("train").accuracy, 0.4);
  failure([&] { trainer.run(); }, PERIGEE_USAGE);
  trainer.stop();
  training.join();
  EXPECT_FALSE(trainer.finished());
}

// Examples appear while the program lives; reading waits for the next one.
class Stream final : public pg::data_source {
 public:
  explicit Stream(const Quadrants& data) : data_(data) {}
  int64_t size() const override { return int64_t{1} << 40; }
  bool live() const override { return true; }
  std::vector<pg::field_info> fields() const override { return {pg::declare("x", {2}), pg::declare_labels("y", 2)}; }
  void read(const perigee_read_key& key, std::span<void* const> slots) const override {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return key.index < count_ || closed_; });
    if (key.index >= count_) throw std::runtime_error("the stream was closed");
    const auto i = static_cast<size_t>(key.index) % data_.y.size();
    auto* x = static_cast<float*>(slots[0]);
    x[0] = data_.x[2 * i];
    x[1] = data_.x[2 * i + 1];
    *static_cast<int64_t*>(slots[1]) = data_.y[i];
  }
  void push(int64_t examples) {
    const std::lock_guard lock(mutex_);
    count_ += examples;
    arrived_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    arrived_.notify_all();
  }

 private:
  const Quadrants& data_;
  mutable std::mutex mutex_;
  mutable std::condition_variable arrived_;
  int64_t count_ = 0;
  bool closed_ = false;
};

TEST(Stream, TrainsOnWhatArrives) {
  const Quadrants data(2000);
  const auto stream = std::make_shared<Stream>(data);
  pg::experiment described = small_experiment(pg::host(stream));
  described.data.shuffle = false;
  described.epochs = {};
  described.steps = 1500;
  pg::trainer trainer(described);
  std::thread producer([&] {
    for (int i = 0; i < 300; ++i) stream->push(100 + i % 7);
    stream->push(20 * 8);
  });
  double last = 1;
  EXPECT_TRUE(trainer.run([&](const pg::report& at) { last = 0.95 * last + 0.05 * at.loss; }));
  producer.join();
  EXPECT_LT(last, 0.25);
  EXPECT_GT(trainer.predict(std::vector<float>{0.6f, 0.6f})[1], 0.8f);
  stream->close();
  const std::string text = failure(
      [&] {
        for (int i = 0; i < 100; ++i) trainer.step();
      },
      PERIGEE_DATA);
  EXPECT_NE(text.find("the stream was closed"), std::string::npos) << text;
}

TEST(Stream, TransformsApplyToTheProgramsData) {
  const Quadrants data(200);
  pg::experiment described = small_experiment(data.source());
  pg::job job(described);
  job.set("data.train", pg::options{{"type", "host"}, {"name", "elsewhere"}});
  failure([&] { pg::trainer trainer(job); }, PERIGEE_DATA);
  job.bind("elsewhere", data.source());
  pg::trainer trainer(job);
  trainer.run(5);
}

}  // namespace
