// The program as a user meets it: spawned, with its output, its exit code and its run folder looked at.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cluster/ledger/file_ledger.h"
#include "src/core/json.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Outcome {
  int code = -1;
  std::string out, err;
};

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// A folder of its own for each test, and programs that run in it.
class Program : public testing::Test {
 protected:
  Program() {
    char name[] = "/tmp/perigee-test-XXXXXX";
    folder_ = mkdtemp(name);
    write(folder_ / "small.lua", R"(
local pg = require "perigee"
local digits = pg.data.digits { size = 256 }
return pg.experiment {
  name = "small",
  network = pg.sequential { pg.dense { 16, activation = "relu" }, pg.dense { 10 } },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = 1e-3 },
  data = { train = digits.train, test = digits.test, batch = 32 },
  epochs = 2, seed = 7,
}
)");
  }
  ~Program() override { fs::remove_all(folder_); }

  pid_t start(const std::vector<std::string>& arguments) {
    for (const char* file : {"out.txt", "err.txt"}) fs::remove(folder_ / file);
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(folder_.c_str()) != 0) _exit(99);
    if (!freopen("out.txt", "w", stdout) || !freopen("err.txt", "w", stderr)) _exit(99);
    std::vector<char*> pointers;
    static std::string program = PERIGEE_PROGRAM;
    pointers.push_back(program.data());
    static std::vector<std::string> kept;
    kept = arguments;
    for (std::string& argument : kept) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    execv(PERIGEE_PROGRAM, pointers.data());
    _exit(98);
  }

  Outcome wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read(folder_ / "out.txt"), read(folder_ / "err.txt")};
  }

  Outcome run(const std::vector<std::string>& arguments) { return wait(start(arguments)); }

  // Waits until the program's standard output has `text`; false after a time that no slow machine needs.
  bool appears(const std::string& text, const char* file = "out.txt") {
    const auto end = Clock::now() + std::chrono::minutes(5);
    while (Clock::now() < end) {
      if (read(folder_ / file).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  static std::vector<Json> events(const std::string& text) {
    std::vector<Json> list;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) list.push_back(Json::parse(line, "output"));
    return list;
  }

  static std::string kind(const Json& event) { return event.find("event")->as_string(); }

  fs::path folder_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Program, LedgerSaysWhetherEveryExampleCountedOnce) {
  const auto append = [&](const LedgerRecord& record) {
    EXPECT_TRUE(FileLedger((folder_ / "ledger").string()).append(encode_record(record)));
  };
  append({.kind = LedgerRecord::Kind::job, .text = R"({"examples": 60, "planned": 60})"});
  append({.round = 0, .shares = {{1, 30, {{0, 0, 30}}}, {2, 20, {{0, 30, 20}}}}});
  append({.kind = LedgerRecord::Kind::skipped, .round = 0, .shares = {{0, 10, {{0, 50, 10}}}}, .text = "NaN"});
  Outcome outcome = run({"ledger", folder_.string()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_HAS(outcome.out, "counted                 50");
  EXPECT_HAS(outcome.out, "skipped                 10");
  append({.round = 1, .shares = {{1, 5, {{0, 0, 5}}}}});
  outcome = run({"ledger", folder_.string(), "--json"});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(Json::parse(outcome.out, "output").find("duplicates")->as_int(), 5);
  EXPECT_EQ(run({"ledger", "nowhere"}).code, 2);
}

TEST_F(Program, VersionPrintsOneLine) {
  const Outcome outcome = run({"version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, std::string("perigee ") + PERIGEE_VERSION + "\n");
}

TEST_F(Program, EveryCommandHasHelp) {
  for (const char* command : {"train", "eval", "predict", "describe", "doctor", "ledger", "version", "completion"}) {
    const Outcome outcome = run({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_HAS(outcome.out, "Usage: perigee " + std::string(command));
    EXPECT_HAS(outcome.out, "Exit codes: 0 success, 2 usage");
  }
}

TEST_F(Program, TyposAreUsageErrorsWithTheNearestName) {
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& part, int code = 2) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_HAS(outcome.err, part);
  };
  expect({"trian", "small.lua"}, "'trian' is no command of `perigee`; did you mean 'train'?");
  expect({"train", "small.lua", "--epohcs", "1"}, "did you mean '--epochs'?");
  expect({"train", "smal.lua"}, "did you mean 'small.lua'?");
  expect({"train", "small.lua", "--set", "optimiser.lr=1"}, "did you mean 'optimizer'?");
  expect({"train", "small.lua", "--set", "network.layers.1.uot=1"}, "did you mean 'out'?");
  expect({"train", "small.lua", "--set", "novalue"}, "path=value");
  expect({"train", "small.lua", "--log", "jsn"}, "did you mean 'json'?");
  expect({"train", "small.lua", "--device", "gpu"}, "did you mean 'cuda'?");
  expect({"train", "small.lua", "--epochs", "-3"}, "--epochs");
  expect({"train"}, "a script or a job is needed");
  expect({"eval", "nothere.safetensors"}, "there is no such file");
  expect({"completion", "bsh"}, "did you mean 'bash'");
}

TEST_F(Program, ScriptsThatAreWrongAreModelErrors) {
  const auto expect = [&](const std::string& script, const std::string& part, int code = 4) {
    write(folder_ / "bad.lua", script);
    const Outcome outcome = run({"train", "bad.lua"});
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_HAS(outcome.err, part);
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << "nothing is left behind";
  };
  expect("", "bad.lua: the script returns nothing");
  expect(
      "local pg = require 'perigee' return pg.experiment { network = pg.sequential { pg.dense { 2 } }, "
      "data = { train = pg.data.digits().train } }",
      "bad.lua: a job that trains needs a 'loss'");
  expect("local x = = 1", "bad.lua:1: unexpected symbol");
  expect("\x1bLJ\x02", "bytecode");
  expect("local pg = require 'perigee'\nlocal n = pg.sequential { pg.dense { 3, activaton = 'relu' } }",
         "bad.lua:2: dense has no option 'activaton'; did you mean 'activation'?");
  const std::string job =
      "local pg = require 'perigee'\nlocal d = pg.data.digits { size = 64 }\nreturn pg.experiment { loss = 'cross_entropy', optimizer = "
      "'sgd', data = { train = d.train, batch = 8 },\n";
  expect(job + "network = pg.sequential {\n pg.conv2d { 4, kernel = 50 }, pg.dense { 10 } } }", "bad.lua:5: conv2d 'conv1'");
  expect(job + "network = pg.sequential { pg.dense { 10, activation = 'rleu' } } }", "did you mean 'relu'");
}

TEST_F(Program, JobsThatAreWrongAreModelErrors) {
  const auto expect = [&](const std::string& name, const std::string& text, const std::string& part) {
    write(folder_ / name, text);
    const Outcome outcome = run({"train", name});
    EXPECT_EQ(outcome.code, 4) << outcome.err;
    EXPECT_HAS(outcome.err, part);
  };
  expect("broken.json", "{\"network\": [", "broken.json:1:");
  expect("twice.json", R"({"network": [], "network": []})", "twice");
  expect("unknown.json", R"({"network": ["flatten"], "data": {}, "optimiser": "sgd"})", "did you mean 'optimizer'?");
  expect("broken.yaml", "network: [", "broken.yaml:");
}

TEST_F(Program, EndlessScriptsEndByCtrlC) {
  write(folder_ / "endless.lua", "io.stderr:write('begun\\n')\nwhile true do end");
  const pid_t child = start({"train", "endless.lua"});
  ASSERT_TRUE(appears("begun", "err.txt"));
  kill(child, SIGINT);
  EXPECT_TRUE(appears("stopping", "err.txt"));
  EXPECT_EQ(wait(child).code, 130);
}

TEST_F(Program, JsonLogKeepsItsContract) {
  const Outcome outcome = run({"train", "small.lua", "--log", "json", "--threads", "1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> list = events(outcome.out);
  EXPECT_EQ(kind(list.front()), "start");
  EXPECT_EQ(kind(list.back()), "end");
  int64_t last_step = 0, epochs = 0;
  for (const Json& event : list) {
    if (kind(event) == "epoch") ++epochs;
    if (kind(event) != "step") continue;
    EXPECT_LE(event.find("step")->as_int() - last_step, 100);
    last_step = event.find("step")->as_int();
    EXPECT_TRUE(event.find("loss")->is_number());
    EXPECT_TRUE(event.find("epoch")->is_int());
  }
  EXPECT_EQ(epochs, 2);
  const Json& end = list.back();
  EXPECT_EQ(end.find("epochs")->as_int(), 2);
  EXPECT_TRUE(end.find("test")->find("accuracy")->is_number());
  EXPECT_TRUE(end.find("test")->find("loss")->is_number());
  EXPECT_TRUE(end.find("examples_per_s")->is_number());
  EXPECT_HAS(end.find("data")->as_string(), "digits");
  const fs::path run_folder = folder_ / end.find("folder")->as_string();
  for (const char* file : {"job.json", "log.jsonl", "report.json", "report.txt", "details.json", "report.html", "curves.svg",
                           "model.safetensors", "checkpoints", "tensorboard"})
    EXPECT_TRUE(fs::exists(run_folder / file)) << file;
  EXPECT_EQ(read(run_folder / "log.jsonl"), outcome.out);
  // A trained model can be evaluated again, and the folder holds the job that was trained.
  const Outcome judged = run({"eval", run_folder.string(), "--log", "json"});
  ASSERT_EQ(judged.code, 0) << judged.err;
  EXPECT_EQ(*events(judged.out).back().find("test"), *end.find("test"));
  const Outcome described = run({"describe", (run_folder / "job.json").string(), "--json"});
  EXPECT_EQ(described.out, read(run_folder / "job.json"));
}

// Parameters only: the files of two runs differ in paths and times.
std::string weights(const fs::path& model) {
  const std::string bytes = read(model);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  return bytes.substr(8 + header);
}

TEST_F(Program, InterruptedRunsResumeToTheSameBits) {
  const std::vector<std::string> settings = {"--log", "json", "--threads", "1", "--epochs", "40"};
  auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    return arguments;
  };
  const Outcome whole = run(with({"train", "small.lua", "--out", "whole"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const pid_t child = start(with({"train", "small.lua", "--out", "cut"}));
  ASSERT_TRUE(appears("\"epoch\":3,"));
  kill(child, SIGTERM);
  EXPECT_TRUE(appears("stopping at the next step", "err.txt"));
  const Outcome cut = wait(child);
  ASSERT_EQ(cut.code, 143) << cut.err;
  const Json end = events(cut.out).back();
  EXPECT_EQ(end.find("stopped")->as_string(), "interrupted");
  EXPECT_HAS(end.find("resume")->as_string(), "--resume cut");
  EXPECT_FALSE(fs::exists(folder_ / "cut" / "model.safetensors"));
  const Outcome resumed = run(with({"train", "small.lua", "--resume", "cut"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(weights(folder_ / "cut" / "model.safetensors"), weights(folder_ / "whole" / "model.safetensors"));
  EXPECT_EQ(*events(resumed.out).back().find("test"), *events(whole.out).back().find("test"));
}

TEST_F(Program, ResumeNeedsARun) {
  EXPECT_EQ(run({"train", "small.lua", "--resume"}).code, 2);
  EXPECT_EQ(run({"train", "small.lua", "--resume", "nowhere"}).code, 2);
  fs::create_directories(folder_ / "old");
  write(folder_ / "old" / "job.json", "{}");
  EXPECT_EQ(run({"train", "small.lua", "--out", "old"}).code, 2) << "an earlier run is never overwritten";
}

TEST_F(Program, DamagedModelsAreRefused) {
  ASSERT_EQ(run({"train", "small.lua", "--out", "run", "--steps", "2", "--log", "json"}).code, 0);
  const std::string whole = read(folder_ / "run" / "model.safetensors");
  for (const size_t cut : {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write(folder_ / "cut.safetensors", whole.substr(0, cut));
    EXPECT_EQ(run({"eval", "cut.safetensors"}).code, 4) << "cut at " << cut;
  }
  std::string flipped = whole;
  flipped[whole.size() - 9] ^= 4;
  write(folder_ / "flipped.safetensors", flipped);
  EXPECT_EQ(run({"eval", "flipped.safetensors"}).code, 4);
}

TEST_F(Program, LossesThatAreNotFiniteStopTheRun) {
  write(folder_ / "large.lua", R"(
local pg = require "perigee"
return pg.experiment {
  network = pg.sequential { pg.dense { 4, weight_init = "ones" }, pg.dense { 2, name = "head" } },
  loss = "cross_entropy", optimizer = "sgd",
  data = { train = pg.data.arrays { x = { { 1, 1 }, { 3e38, 3e38 } }, y = { 0, 1 } }, batch = 1, shuffle = false },
}
)");
  const Outcome outcome = run({"train", "large.lua", "--log", "json", "--out", "run"});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_HAS(outcome.err, "step 2: the loss is not finite");
  EXPECT_HAS(outcome.err, "dense1");
  EXPECT_EQ(kind(events(outcome.out).back()), "error");
  EXPECT_FALSE(fs::exists(folder_ / "run" / "model.safetensors"));
}

TEST_F(Program, CompletionNamesTheOptions) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run({"completion", shell});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_HAS(outcome.out, "train");
    EXPECT_HAS(outcome.out, "epochs");
  }
}

TEST_F(Program, RelativeDataIsFoundFromTheScriptNotFromHere) {
  fs::create_directories(folder_ / "project");
  std::string table;
  for (int i = 0; i < 40; ++i) table += std::to_string(i % 7) + "," + std::to_string(i % 3) + "," + (i % 7 > 3 ? "high" : "low") + "\n";
  write(folder_ / "project" / "table.csv", table);
  write(folder_ / "project" / "job.json", R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam",
    "data": {"train": {"type": "csv", "file": "table.csv"}, "test": {"type": "csv", "file": "table.csv"}, "batch": 8}, "epochs": 2})");
  ASSERT_EQ(run({"train", "project/job.json", "--out", "run", "--log", "json"}).code, 0);
  const Outcome judged = run({"eval", "run"});
  EXPECT_EQ(judged.code, 0) << judged.err;
  const Outcome resumed = run({"train", "--resume", "run", "--epochs", "3", "--log", "json"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(events(resumed.out).back().find("epochs")->as_int(), 3);
  write(folder_ / "new.csv", "6,1\n0,2\n");
  const Outcome predicted = run({"predict", "run", "new.csv", "--json"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(events(predicted.out).size(), 2u);
  EXPECT_HAS(predicted.out, "\"label\":");
}

TEST_F(Program, ATextsModelReadsOtherTextsByItsOwnVocabulary) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 3 ? "abc " : "abd\n";
  write(folder_ / "text.txt", text);
  write(folder_ / "job.json", R"({"network": [{"type": "embedding", "size": 8, "out": 4}, {"type": "dense", "out": 8}],
    "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.01}, "data": {"batch": 32,
    "train": {"type": "text", "file": "text.txt", "context": 3, "max_vocabulary": 8, "parts": {"train": 0.9, "test": 0.1}},
    "test": {"type": "text", "file": "text.txt", "context": 3, "max_vocabulary": 8, "parts": {"train": 0.9, "test": 0.1}, "part": "test"}},
    "epochs": 20})");
  const Outcome trained = run({"train", "job.json", "--out", "run", "--log", "json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_GT(events(trained.out).back().find("test")->find("accuracy")->as_number(), 0.7);
  write(folder_ / "new.txt", "Xabcq ab");
  const Outcome predicted = run({"predict", "run", "new.txt", "--json"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const std::vector<Json> lines = events(predicted.out);
  ASSERT_EQ(lines.size(), 6u) << "also the window that nothing follows";
  EXPECT_EQ(lines[1].find("label")->as_string(), " ") << "what follows abc";
  const Outcome shown = run({"predict", "run", "new.txt"});
  EXPECT_HAS(shown.out, "new.txt[1]: ' ' ");
  EXPECT_HAS(run({"eval", "run", "--data", R"({"type": "text", "file": "new.txt"})"}).out, "(5 examples, vocabulary of 7)");
  write(folder_ / "short.txt", "ab");
  EXPECT_EQ(run({"predict", "run", "short.txt"}).code, 3);
}

TEST_F(Program, SequencesAreTrainedAtEveryPosition) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd";
  write(folder_ / "text.txt", text);
  const std::string source = R"({"type": "text", "file": "text.txt", "context": 8, "targets": "every", "max_vocabulary": 5})";
  write(folder_ / "job.json", R"({"network": [{"type": "embedding", "size": 5, "out": 4},
    {"type": "conv1d", "out": 16, "kernel": 3, "padding": "causal", "activation": "relu"}, {"type": "conv1d", "out": 5, "kernel": 1}],
    "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.01}, "data": {"batch": 32, "train": )" +
                                  source + R"(, "test": )" + source + R"(}, "epochs": 10})");
  const Outcome trained = run({"train", "job.json", "--out", "run", "--log", "json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_LT(events(trained.out).back().find("test")->find("loss")->as_number(), 0.2);
}

// An array as numpy.save writes it.
std::string npy(const std::string& shape, const std::string& bytes) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + bytes;
}

TEST_F(Program, PredictsArrays) {
  ASSERT_EQ(run({"train", "small.lua", "--out", "run", "--steps", "2", "--log", "json"}).code, 0);
  write(folder_ / "two.npy", npy("(2, 1, 28, 28)", std::string(2 * 784, '\x40')));
  write(folder_ / "one.npy", npy("(1, 28, 28)", std::string(784, '\x40')));
  const Outcome outcome = run({"predict", "run", "two.npy", "one.npy", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> lines = events(outcome.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("probabilities")->as_array().size(), 10u);
  EXPECT_EQ(*lines[0].find("probabilities"), *lines[2].find("probabilities"));
  EXPECT_EQ(lines[1].find("index")->as_int(), 1);
  write(folder_ / "wrong.npy", npy("(2, 5)", std::string(10, '\x40')));
  EXPECT_EQ(run({"predict", "run", "wrong.npy"}).code, 3);
  EXPECT_EQ(run({"predict", "run", "two.xyz"}).code, 2);
  write(folder_ / "cut.npy", npy("(2, 1, 28, 28)", "short"));
  EXPECT_EQ(run({"predict", "run", "cut.npy"}).code, 3);
}

TEST_F(Program, DescribeShowsTheNetwork) {
  const Outcome outcome = run({"describe", "small.lua"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("worker"), std::string::npos) << "the job names no policy";
  const std::string named = run({"describe", "small.lua", "--set", "averaging=periodic"}).out;
  EXPECT_HAS(named, "a policy for several workers: `perigee describe --workers` says what they would do");
  EXPECT_EQ(named.find("bytes that the busiest"), std::string::npos);
  EXPECT_HAS(run({"describe", "small.lua", "--set", "averaging=periodic", "--workers"}).out, "averaging on several workers: periodic");
  EXPECT_HAS(outcome.out, "dense1");
  EXPECT_HAS(outcome.out, "12,560");
  EXPECT_HAS(outcome.out, "effective batch 32");
}

TEST_F(Program, DescribeTellsTheSameAsJson) {
  const Outcome outcome = run({"describe", "small.lua", "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json told = Json::parse(outcome.out, "describe");
  EXPECT_EQ(told.find("effective_batch")->as_int(), 32);
  EXPECT_EQ(told.find("averaging")->find("when")->as_string(), "each step");
  EXPECT_EQ(told.find("network")->find("parameters")->as_int(), 12730);
  EXPECT_EQ(run({"describe", "small.lua", "--format", "yaml"}).code, 2);
}

}  // namespace
}  // namespace perigee
