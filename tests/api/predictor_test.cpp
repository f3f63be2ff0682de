// Predictors: what many threads ask at once is answered as perigee_model_predict answers it alone.
#include <atomic>
#include <thread>

#include "tests/api/allocations.h"
#include "tests/api/support.h"

namespace {

pg::trainer trained(int seed, int steps = 100) {
  static const Quadrants data(500);
  pg::experiment described = small_experiment(data.source());
  described.seed = seed;
  pg::trainer trainer(described);
  trainer.run(steps);
  return trainer;
}

// Two classes; the model says `first` of class 0 whatever it sees.
pg::model constant(float first) {
  pg::model model = trained(1, 1).model();
  model.write("out.weight", std::vector<float>(32, 0.f));
  model.write("out.bias", std::vector<float>{std::log(first), std::log(1 - first)});
  return model;
}

template <class Work>
void in_threads(int count, Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

void answers_as_predict_does(const pg::predictor_options& options, int askers = 4) {
  const pg::model model = trained(3).model();
  const pg::predictor predictor(model, options);
  const Quadrants asked(400);
  const std::vector<float> expected = model.predict(asked.x);
  std::atomic<int64_t> together = 0;
  std::atomic<int> wrong = 0;
  in_threads(askers, [&](int thread) {
    for (size_t at = static_cast<size_t>(thread), round = 0; round < 150; ++round) {
      const size_t examples = 1 + (at + round) % 5, first = (at * 37 + round * 11) % (400 - examples);
      float out[10];
      const pg::answer answer =
          predictor.predict(std::span<const float>(asked.x).subspan(2 * first, 2 * examples), std::span<float>(out, 2 * examples));
      together += answer.batch > static_cast<int64_t>(examples);
      for (size_t i = 0; i < 2 * examples; ++i) wrong += std::abs(out[i] - expected[2 * first + i]) > 1e-5f;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(together > 0 || options.fill_wait.count() == 0) << "nothing was batched";
}

TEST(Predictor, AnswersAsPredictDoes) { answers_as_predict_does({}); }
TEST(Predictor, AnswersAsPredictDoesWithTwoLanes) { answers_as_predict_does({.threads = 2, .max_batch = 8}); }
TEST(Predictor, AnswersAsPredictDoesWhenBatchesAreFilled) {
  answers_as_predict_does({.max_batch = 13, .fill_wait = std::chrono::microseconds(2000)});
}
TEST(Predictor, AnswersAsPredictDoesWithBatchesThatHardlyFit) {
  answers_as_predict_does({.threads = 2, .max_batch = 5, .fill_wait = std::chrono::microseconds(300)});
}
TEST(Predictor, AnswersAsPredictDoesWithMoreAskersThanLanes) {
  answers_as_predict_does({.threads = 3, .max_batch = 6, .fill_wait = std::chrono::microseconds(200)}, 9);
}

TEST(Predictor, FullBatchesDoNotWait) {
  const pg::predictor predictor(trained(3).model(), {.max_batch = 2, .fill_wait = std::chrono::seconds(60)});
  in_threads(2, [&](int) {
    float in[2] = {0.5f, 0.5f}, out[2];
    EXPECT_EQ(predictor.predict(std::span<const float>(in), std::span<float>(out)).batch, 2);
  });
}

// One waits for its batch to be filled, one waits with it, and that is all that the queue holds; again when it was emptied.
TEST(Predictor, FullQueuesRefuseAndCancellationEndsWhatWaits) {
  pg::predictor predictor(trained(3).model(), {.max_batch = 4, .max_queue = 1, .fill_wait = std::chrono::seconds(60)});
  for (int round = 0; round < 2; ++round) {
    std::atomic<int> busy = 0, stopped = 0, other = 0;
    std::thread asking([&] {
      in_threads(3, [&](int) {
        try {
          predictor.predict(std::vector<float>{1, 1}, {.tag = 5});
          ++other;
        } catch (const pg::error& error) {
          (error.status() == PERIGEE_BUSY ? busy : error.status() == PERIGEE_STOPPED ? stopped : other)++;
        }
      });
    });
    while (busy + other == 0) std::this_thread::yield();
    EXPECT_EQ(predictor.cancel(4), 0);
    EXPECT_EQ(predictor.cancel(5), 2);
    asking.join();
    EXPECT_EQ(busy, 1);
    EXPECT_EQ(stopped, 2);
    EXPECT_EQ(other, 0);
  }
}

TEST(Predictor, BatchesBeginBeforeTheirRequestsAreLate) {
  const pg::predictor predictor(trained(3).model(), {.fill_wait = std::chrono::seconds(60)});
  in_threads(2, [&](int thread) {
    float in[2] = {0.5f, 0.5f}, out[2];
    predictor.predict(std::span<const float>(in), std::span<float>(out), {.timeout = std::chrono::milliseconds(thread ? 2000 : 4000)});
  });
}

TEST(Predictor, RequestsThatAreNotBegunInTimeEnd) {
  const pg::predictor predictor(trained(3).model(), {.max_batch = 1024});
  std::atomic<bool> late = false;
  std::thread busy([&] {
    std::vector<float> in(2048, 0.5f), out(2048);
    while (!late) predictor.predict(std::span<const float>(in), std::span(out));
  });
  while (!late) {
    float in[2] = {0.5f, 0.5f}, out[2] = {7, 7};
    perigee_request request{};
    request.size = sizeof request;
    request.timeout_us = 1;
    const void* const inputs[] = {in};
    const perigee_status status = perigee_predictor_predict(predictor.get(), inputs, 1, 1, out, sizeof out, &request);
    late = status == PERIGEE_TIMEOUT;
    EXPECT_TRUE(late || status == PERIGEE_OK);
    EXPECT_EQ(out[0] == 7, late) << "what is refused writes nothing";
    EXPECT_EQ(std::string(request.message).find("in time") != std::string::npos, late);
  }
  busy.join();
}

TEST(Predictor, EachRequestIsAnsweredByOneModel) {
  const pg::model models[] = {constant(0.25f), constant(0.75f)};
  pg::predictor predictor(models[1], {.threads = 2, .max_batch = 16});
  std::atomic<bool> over = false;
  std::atomic<int> wrong = 0;
  std::atomic<uint64_t> seen = 0;
  std::thread asking([&] {
    in_threads(4, [&](int thread) {
      const std::vector<float> in(2 * static_cast<size_t>(thread + 1), 0.3f);
      std::vector<float> out(in.size());
      uint64_t last = 0;
      while (!over) {
        const pg::answer answer = predictor.predict(std::span<const float>(in), std::span(out));
        for (size_t i = 0; i < out.size(); i += 2) wrong += std::abs(out[i] - (answer.model % 2 ? 0.75f : 0.25f)) > 1e-5f;
        wrong += answer.model < last;
        last = answer.model;
        seen = last;
      }
    });
  });
  for (int round = 0; round < 20; ++round) {
    const uint64_t number = predictor.swap(models[round % 2]);
    EXPECT_EQ(number, static_cast<uint64_t>(round + 2));
    while (seen < number) std::this_thread::yield();
  }
  over = true;
  asking.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Predictor, AnswersWhileItsModelIsTrained) {
  const Quadrants data(1000);
  pg::experiment described = small_experiment(data.source());
  described.epochs = 100000;
  pg::trainer trainer(described);
  pg::predictor predictor(trainer.model());
  const std::vector<float> before = predictor.predict(std::vector<float>{0.6f, 0.6f});
  std::thread training([&] { trainer.run(); });
  while (predictor.predict(std::vector<float>{0.6f, 0.6f})[1] < 0.9f) predictor.swap(trainer.model());  // it learns that in the end
  EXPECT_LT(before[1], 0.8f);
  trainer.stop();
  training.join();
}

TEST(Predictor, AllocatesNothingForARequest) {
  const pg::predictor predictor(trained(3).model(), {.max_batch = 7});
  float in[14] = {0.5f, 0.5f}, out[14];
  for (size_t examples = 1; examples <= 7; ++examples) {
    const long before = allocations;
    predictor.predict(std::span<const float>(in, 2 * examples), std::span<float>(out, 2 * examples));
    EXPECT_EQ(allocations, before) << examples << " examples";
  }
}

TEST(Predictor, RefusesWhatDoesNotFit) {
  const pg::model model = trained(3).model();
  pg::predictor predictor(model, {.max_batch = 4});
  float in[20] = {}, out[20];
  failure([&] { predictor.predict(std::span<const float>(in, 10), std::span<float>(out)); }, PERIGEE_USAGE);
  failure([&] { predictor.predict(std::span<const float>(in, 3), std::span<float>(out)); }, PERIGEE_USAGE);
  failure([&] { predictor.predict(std::span<const float>(in, 4), std::span<float>(out, 3)); }, PERIGEE_USAGE);
  failure([&] { predictor.predict({}, 1, std::as_writable_bytes(std::span<float>(out))); }, PERIGEE_USAGE);
  failure([&] { predictor.predict(std::span<const float>(in, 2), std::span<float>(out), {.timeout = std::chrono::seconds(-1)}); },
          PERIGEE_USAGE);
  EXPECT_NE(failure([&] { pg::predictor(model, {.max_batch = 5000}); }, PERIGEE_USAGE).find("max_batch"), std::string::npos);
  failure([&] { pg::predictor(model, {.threads = 65}); }, PERIGEE_USAGE);
  pg::experiment wider = small_experiment(pg::sources::digits({{"part", "train"}, {"size", 20}}));
  wider.network = pg::sequential(pg::dense(10));
  const pg::trainer other(wider);
  EXPECT_NE(failure([&] { predictor.swap(other.model()); }, PERIGEE_MODEL)
                .find("predictor: the new model has other inputs or another output; got f32[10]"),
            std::string::npos);
  EXPECT_EQ(predictor.predict(std::vector<float>{1, 1}), model.predict(std::vector<float>{1, 1})) << "the old one goes on";
  const Quadrants data(100);
  pg::experiment meeting = small_experiment(data.source());
  meeting.network = pg::sequential(pg::lambda([](pg::traced x) { return pg::ops::softmax(x, {{"axis", 0}}); }), pg::dense(2));
  const pg::trainer together(meeting);
  const std::string told = failure([&] { pg::predictor(together.model(), {.max_batch = 4}); }, PERIGEE_MODEL);
  for (const char* part :
       {"predictor: in this network the examples of a batch depend on each other", "got max_batch = 4, expected 1; set max_batch to 1"})
    EXPECT_NE(told.find(part), std::string::npos) << told;
}

}  // namespace
