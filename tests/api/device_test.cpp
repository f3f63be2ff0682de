// The embedding interface where the context or the job names a GPU, in whose place the module of tests/cuda/shim stands.
#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "tests/api/support.h"
#include "tests/cuda/shim/counters.h"

namespace {

template <class F>
F* of_module(const char* name) {
  static void* const module = dlopen(std::getenv("PERIGEE_CUDA_MODULE"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(module, name));
}
shim::Counters& counters() { return *of_module<shim::Counters*()>("shim_counters")(); }

pg::context on_gpu() { return pg::context({.threads = 1, .device = "cuda:0"}); }

const Quadrants& data() {
  static const Quadrants examples(500);
  return examples;
}

pg::job small_job(const pg::context& in = on_gpu()) { return {small_experiment(data().source()), in}; }

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-6f) << i;
}

TEST(DeviceApi, TrainsAndPredictsWhereTheContextSays) {
  pg::trainer device(small_job());
  const long launched = counters().graph_launches;
  device.run(40);
  EXPECT_GE(counters().graph_launches - launched, 40);
  const pg::model model = device.model();
  const std::vector<float> got = model.predict(data().x);
  EXPECT_NE(device.model().predict(data().x), std::vector<float>(1000));
  expect_near(got, pg::model::load(model.save()).predict(data().x));  // on the host

  // Again: graphs alone, and no parameters go over.
  for (int buffers = 0; buffers < 2; ++buffers) static_cast<void>(model.predict(data().x));
  const shim::Counters before = counters();
  EXPECT_EQ(model.predict(data().x), got);
  EXPECT_GT(counters().graph_launches, before.graph_launches);
  EXPECT_EQ(counters().launches, before.launches);
  EXPECT_EQ(counters().allocations, before.allocations);
  EXPECT_EQ(counters().waits, before.waits);
}

TEST(DeviceApi, TheJobsDeviceWillDoAsWell) {
  pg::experiment described = small_experiment(data().source());
  described.device = "cuda:0";
  pg::trainer named(described), other(small_job());
  named.run(20), other.run(20);
  EXPECT_EQ(all_parameters(named.model()), all_parameters(other.model()));
  const long launched = counters().graph_launches;
  EXPECT_EQ(named.predict(data().x), other.predict(data().x));
  EXPECT_GT(counters().graph_launches, launched);
}

TEST(DeviceApi, ALoadedModelComputesWhereItsContextSays) {
  pg::trainer device(small_job());
  device.run(40);
  pg::model loaded = pg::model::load(device.model().save(), on_gpu());
  const long launched = counters().graph_launches;
  const std::vector<float> got = loaded.predict(data().x);
  EXPECT_GT(counters().graph_launches, launched);
  EXPECT_EQ(got, device.predict(data().x));
  // The program's writes take effect from then on.
  loaded.write("out.bias", std::vector<float>{3.f, -3.f});
  const std::vector<float> other = loaded.predict(data().x);
  EXPECT_NE(other, got);
  expect_near(other, pg::model::load(loaded.save()).predict(data().x));
}

// A model's structure may be read while another thread trains: it stays on the device meanwhile.
TEST(DeviceApi, OthersAskWhileItTrains) {
  pg::trainer quiet(small_job()), asked(small_job());
  quiet.run(200);
  const pg::model model = asked.model();
  std::atomic<bool> over = false;
  std::vector<float> last;
  std::thread asking([&] {
    for (size_t count = 1; !over; count = count * 7 % 311) {
      EXPECT_EQ(model.inputs().at(0).shape, std::vector<int64_t>{2});
      last = model.predict(std::span(data().x).first(2 * count));
      EXPECT_EQ(model.read("out.bias").size(), 2u);
    }
  });
  asked.run(200);
  over = true;
  asking.join();
  EXPECT_FALSE(last.empty());
  EXPECT_EQ(all_parameters(asked.model()), all_parameters(quiet.model()));
}

TEST(DeviceApi, APredictorAnswersThere) {
  pg::trainer device(small_job());
  device.run(100);
  const pg::model model = device.model();
  const std::vector<float> expected = model.predict(data().x);
  pg::predictor predictor(model, {.threads = 2, .max_batch = 30});
  const auto answers = [&](const std::vector<float>& wanted) {
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        for (size_t round = 0; round < 40; ++round) {
          const size_t examples = 1 + (thread + round) % 7, first = (thread * 37 + round * 11) % 400;
          float out[14];
          predictor.predict(std::span(data().x).subspan(2 * first, 2 * examples), std::span<float>(out, 2 * examples));
          for (size_t i = 0; i < 2 * examples; ++i) wrong += std::abs(out[i] - wanted[2 * first + i]) > 2e-6f;
        }
      });
    for (std::thread& thread : threads) thread.join();
    return wrong.load();
  };
  const shim::Counters before = counters();
  EXPECT_EQ(answers(expected), 0);
  EXPECT_GT(counters().graph_launches, before.graph_launches);
  EXPECT_EQ(counters().launches, before.launches);  // all was captured before the first request
  EXPECT_EQ(counters().allocations, before.allocations);
  EXPECT_EQ(counters().graphs, before.graphs);
  device.run(100);
  EXPECT_EQ(predictor.swap(device.model()), 2u);
  EXPECT_EQ(answers(device.predict(data().x)), 0);
}

// A lost GPU: every request fails with it, and none waits for ever.
TEST(DeviceApi, APredictorSaysWhatBecameOfItsDevice) {
  const pg::model model = pg::trainer(small_experiment(data().source())).model();
  const pg::predictor predictor(pg::model::load(model.save(), on_gpu()), {.max_batch = 8, .fill_wait = std::chrono::milliseconds(20)});
  of_module<void(const char*, long)>("shim_fault")("launch", 1);
  std::atomic<int> answered = 0, failed = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) try {
          static_cast<void>(predictor.predict(std::span(data().x).first(4)));
          ++answered;
        } catch (const pg::error& error) {
          EXPECT_EQ(error.status(), PERIGEE_RESOURCES);
          EXPECT_NE(std::string(error.what()).find("cuda:0"), std::string::npos) << error.what();
          ++failed;
        }
    });
  for (std::thread& thread : threads) thread.join();
  of_module<void(const char*, long)>("shim_fault")("", 0);
  EXPECT_EQ(answered, 0);
  EXPECT_EQ(failed, 40);
}

TEST(DeviceApi, SaysWhatIsWrong) {
  const auto trainer_on = [](const char* device) {
    return failure([&] { const pg::trainer made(small_job(pg::context({.device = device}))); }, PERIGEE_USAGE);
  };
  EXPECT_NE(trainer_on("cuda:9").find("cuda:9"), std::string::npos);
  EXPECT_NE(trainer_on("cdua").find("did you mean 'cuda'"), std::string::npos);
  const std::vector<std::byte> bytes = pg::trainer(small_experiment(data().source())).model().save();
  const pg::model model = pg::model::load(bytes, pg::context({.device = "cuda:9"}));
  EXPECT_NE(failure([&] { static_cast<void>(model.predict(data().x)); }, PERIGEE_USAGE).find("cuda:9"), std::string::npos);
  failure([&] { const pg::predictor made(model); }, PERIGEE_USAGE);
}

}  // namespace
