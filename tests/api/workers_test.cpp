// Training with worker processes from inside a program: this one is started again, as its own workers, with its own ops and data.
#include <unistd.h>

#include <filesystem>

#include "tests/api/extend.h"

namespace {

std::string empty_folder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "perigee_" + name + "_" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  return folder;
}

pg::experiment own_experiment(const pg::source& train) {
  pg::experiment described = small_experiment(train);
  described.network = pg::sequential(pg::dense(16), pg::lambda([](pg::traced x) {
                                       return pg::host_op("test.swish", {x}, {{"beta", 2}});
                                     }),
                                     pg::dense(2));
  described.averaging = momentum_policy();
  return described;
}

double accuracy(const std::string& folder) {
  const pg::model model = pg::model::load(folder + "/model.safetensors");
  const Quadrants asked(500);
  const std::vector<float> said = model.predict(asked.x);
  double right = 0;
  for (size_t i = 0; i < asked.y.size(); ++i) right += (said[2 * i + 1] > 0.5f) == (asked.y[i] == 1);
  return right / 500;
}

TEST(Workers, HaveTheProgramsOpsDataAndPolicy) {
  const std::string folder = empty_folder("own");
  const pg::job job = own_experiment(pg::registered("quadrants"));
  bool two = false;
  const std::string end = job.train(
      [&](const std::string& event) {
        two |= event.find("\"workers\":2") != std::string::npos;
        return true;
      },
      {.threads = 1, .folder = folder, .workers = 2});
  EXPECT_TRUE(two);
  EXPECT_NE(end.find("\"event\":\"end\""), std::string::npos) << end;
  EXPECT_GT(accuracy(folder), 0.9);
  std::filesystem::remove_all(folder);
}

// What only this process has is sent to the workers.
TEST(Workers, AreSentWhatIsBoundToTheJob) {
  const std::string folder = empty_folder("bound");
  const Quadrants data(600);
  pg::experiment described = own_experiment(data.source());
  described.data.at = "coordinator";
  pg::job(described).train({}, {.threads = 1, .folder = folder, .workers = 2});
  EXPECT_GT(accuracy(folder), 0.9);
  std::filesystem::remove_all(folder);
}

TEST(Workers, StopWhenTheProgramSaysSo) {
  const std::string folder = empty_folder("stopped");
  pg::experiment described = own_experiment(pg::registered("quadrants"));
  described.epochs = 1000000;
  const pg::job job = described;
  const std::string end = job.train([](const std::string& event) { return event.find("\"event\":\"step\"") == std::string::npos; },
                                    {.threads = 1, .folder = folder, .workers = 2});
  EXPECT_NE(end.find("\"stopped\""), std::string::npos) << end;
  std::filesystem::remove_all(folder);
}

TEST(Workers, NeedAFolder) {
  const pg::job job = own_experiment(pg::registered("quadrants"));
  EXPECT_NE(failure([&] { job.train({}, {.workers = 2}); }, PERIGEE_USAGE).find("folder"), std::string::npos);
  failure([&] { job.train({}, {.folder = empty_folder("x"), .workers = -1}); }, PERIGEE_USAGE);
}

}  // namespace

int main(int argc, char** argv) {
  register_swish();
  register_quadrants();
  if (const int code = perigee_worker_main(argc, argv); code >= 0) return code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
