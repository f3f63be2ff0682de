// Training with worker processes from inside a program: this one is started again, as its own workers, with its own ops and data.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "src/data/table/columnar/arrow/perigee_arrow.h"
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

// Data that only this process has are sent to the workers.
TEST(Workers, AreSentWhatIsBoundToTheJob) {
  const std::string folder = empty_folder("bound");
  const Quadrants data(600);
  pg::experiment described = own_experiment(data.source());
  described.data.at = "coordinator";
  pg::job(described).train({}, {.threads = 1, .folder = folder, .workers = 2});
  EXPECT_GT(accuracy(folder), 0.9);
  std::filesystem::remove_all(folder);
}

// A table of another library too. Here it is the one that a prediction gives.
TEST(Workers, AreSentATableInMemory) {
  const std::string folder = empty_folder("table");
  const Quadrants data(200);
  pg::trainer first(small_experiment(data.source()));
  first.run();
  std::string records = "[";
  for (size_t i = 0; i < data.y.size(); ++i)
    records += (i ? "," : "") + std::string("{\"x\": [") + std::to_string(data.x[2 * i]) + "," + std::to_string(data.x[2 * i + 1]) + "]}";
  records += "]";
  perigee_prediction* made = nullptr;
  ASSERT_EQ(perigee_model_predict_records(first.model().get(), records.data(), records.size(), nullptr, &made), PERIGEE_OK);
  ArrowArrayStream stream{};
  ASSERT_EQ(perigee_prediction_arrow(made, &stream), PERIGEE_OK);
  perigee_prediction_free(made);
  pg::job job = pg::job::parse(R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "sgd", "epochs": 2,
      "seed": 1, "data": {"batch": 10, "at": "coordinator", "train": {"type": "table", "host": "train", "steps": [{"normalize": "row"}],
      "features": "row", "target": "output_class"}}})");
  job.bind_table("train", &stream);
  const std::string end = job.train({}, {.threads = 1, .folder = folder, .workers = 2});
  EXPECT_NE(end.find("\"event\":\"end\""), std::string::npos) << end;
  EXPECT_EQ(pg::model::load(folder + "/model.safetensors").predict(std::vector<float>{0.5f}).size(), 2u);
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

// A `perigee` of its own, whose JSON lines are read; ended when this goes.
class Perigee {
 public:
  Perigee(std::vector<std::string> arguments, std::string log) : log_(std::move(log)) {
    const char* program = std::getenv("PERIGEE_PROGRAM");
    arguments.insert(arguments.begin(), program ? program : "perigee");
    std::vector<char*> argv;
    for (std::string& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_EQ(::posix_spawn(&process_, argv[0], &files, nullptr, argv.data(), environ), 0) << argv[0];
    posix_spawn_file_actions_destroy(&files);
  }
  ~Perigee() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
  }
  Perigee(const Perigee&) = delete;
  Perigee& operator=(const Perigee&) = delete;
  // The first text that a key has and that is not empty, as soon as it is there.
  std::string value_of(const std::string& key) const { return text_value(log_, key); }

  static std::string text_value(const std::string& file, const std::string& key) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (; std::chrono::steady_clock::now() < deadline; std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
      std::ifstream in(file);
      const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      const size_t at = text.find('"' + key + "\":"), begin = at == std::string::npos ? at : text.find('"', at + key.size() + 3);
      const size_t end = begin == std::string::npos ? begin : text.find('"', begin + 1);
      if (end != std::string::npos && end > begin + 1) return text.substr(begin + 1, end - begin - 1);
    }
    return "";
  }

 private:
  std::string log_;
  pid_t process_ = -1;
};

struct SecretFile {
  explicit SecretFile(const std::string& name, char digit = '5') : path(empty_folder(name) + ".key") {
    std::ofstream(path) << std::string(64, digit) << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  ~SecretFile() { std::filesystem::remove(path); }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  std::string path;
};

// An agent's workers know only the library: the job's data are sent to them, its policy is traced.
pg::experiment sent_experiment(const Quadrants& data) {
  pg::experiment described = small_experiment(data.source());
  described.data.at = "coordinator";
  described.averaging = momentum_policy();
  return described;
}

TEST(Workers, OfAgentsTrainWithTheClustersSecret) {
  const std::string folder = empty_folder("agents");
  const SecretFile secret("agents_secret"), other("other_secret", '6');
  const Perigee first({"agent", "--listen", "127.0.0.1:0", "--secret", secret.path, "--log", "json", "--slots", "1"}, folder + ".first");
  const Perigee second({"agent", "--listen", "127.0.0.1:0", "--secret", secret.path, "--log", "json", "--slots", "1"}, folder + ".second");
  const std::string agents = first.value_of("address") + "," + second.value_of("address");
  const Quadrants data(600);
  const pg::job job = sent_experiment(data);
  bool two = false;
  const std::string end = job.train(
      [&](const std::string& event) {
        two |= event.find("\"workers\":2") != std::string::npos;
        return true;
      },
      {.threads = 1, .folder = folder, .agents = agents, .secret = secret.path, .min_workers = 2});
  EXPECT_TRUE(two);
  EXPECT_NE(end.find("\"event\":\"end\""), std::string::npos) << end;
  EXPECT_GT(accuracy(folder), 0.9);
  std::filesystem::remove_all(folder);
  // A wrong secret starts nothing, nor does none.
  for (const std::string& wrong : {other.path, std::string(), std::string("/nowhere")}) {
    failure([&] { job.train({}, {.threads = 1, .folder = folder, .agents = agents, .secret = wrong}); }, PERIGEE_AUTHENTICATION);
    std::filesystem::remove_all(folder);
  }
  for (const char* log : {".first", ".second"}) std::filesystem::remove(folder + log);
  std::filesystem::remove_all(folder);
}

TEST(Workers, JoinByThemselvesWhereTheJobListens) {
  const std::string folder = empty_folder("listen");
  const SecretFile secret("listen_secret");
  const Quadrants data(600);
  const pg::job job = sent_experiment(data);
  std::optional<Perigee> stranger;
  std::thread joins([&] {  // the address is in the run folder before a worker is waited for
    const std::string address = Perigee::text_value(folder + "/cluster.json", "listen");
    if (address.empty()) return;
    stranger.emplace(std::vector<std::string>{"worker", "--join", address, "--secret", secret.path, "--threads", "1", "stranger"},
                     folder + ".worker");
  });
  bool joined = false;
  const std::string end = job.train(
      [&](const std::string& event) {
        joined |= event.find("\"stranger\"") != std::string::npos;
        return true;
      },
      {.threads = 1, .folder = folder, .workers = 1, .listen = "127.0.0.1:0", .secret = secret.path, .min_workers = 2});
  joins.join();
  EXPECT_TRUE(joined);
  EXPECT_NE(end.find("\"event\":\"end\""), std::string::npos) << end;
  EXPECT_GT(accuracy(folder), 0.9);
  stranger.reset();
  std::filesystem::remove(folder + ".worker");
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
