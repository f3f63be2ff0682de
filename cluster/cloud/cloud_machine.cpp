#include "cluster/cloud/cloud_machine.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "src/core/config.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

using CloudMachineClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kMeetWithin = 15min;            // the machines of one order begin minutes apart
constexpr auto kCloudMachineLookEvery = 2s;    // for output and notices
constexpr auto kAskEvery = 10s;                // whether the caller wants to end: each look is two paid requests
constexpr auto kCloudMachineEndWithin = 100s;  // AWS takes a machine two minutes after its notice
constexpr uint64_t kMostPiece = 1 << 20;
constexpr const char* kLog = "output.txt";

// The machine's facts, by the second version of the service, which needs a token.
class Metadata {
 public:
  Metadata() {
    const char* given = std::getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    base_ = given != nullptr && *given != '\0' ? given : "http://169.254.169.254";
    while (base_.ends_with('/')) base_.pop_back();
  }
  // Empty: there is no such fact.
  std::string get(const std::string& name) {
    if (token_.empty()) token_ = ask("PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    return ask("GET", "/latest/meta-data/" + name, "X-aws-ec2-metadata-token: " + token_);
  }

 private:
  std::string ask(const char* method, const std::string& path, const std::string& header) {
    Transfer transfer;
    transfer.method = method, transfer.has_body = std::string_view(method) == "PUT";
    transfer.url = base_ + path, transfer.headers = {header};
    transfer.stall_ms = 2000, transfer.tries = 3, transfer.limit = 1 << 16;
    perform(transfer, base_);
    if (transfer.status == 401) token_.clear();  // it has ended
    return transfer.ok() && transfer.problem.empty() ? std::string(as_text(transfer.content)) : "";
  }
  std::string base_, token_;
};

std::string cloud_machine_text_at(const std::string& path) {
  return stat_stored(path).kind == StoredKind::file ? std::string(as_text(read_file(path, kMostPiece))) : "";
}
void tell(const std::string& path, std::string_view text) { write_file(path, as_bytes(text)); }

struct Order {
  std::vector<std::string> words, files;
  int machines = 1, port = 0;
};

Order read_order(const std::string& folder) {
  const Json json = Json::parse(cloud_machine_text_at(folder + "/run.json"), folder + "/run.json", 10'000);
  const Config config(json, folder + "/run.json");
  Order order{.words = config.string_list("words"),
              .files = config.string_list("files"),
              .machines = static_cast<int>(config.integer_in("machines", 1, 65536)),
              .port = static_cast<int>(config.integer_in("port", 1, 65535))};
  config.reject_unread();
  return order;
}

void bring_files(const std::string& folder, const Order& order) {
  for (const std::string& file : order.files) {
    if (file.find('/') != std::string::npos || file.starts_with('.'))
      throw Error(ErrorKind::data, {.where = folder + "/run.json", .what = "names a file outside of the run", .got = "'" + file + "'"});
    write_file(file, read_file(folder + "/files/" + file, uint64_t{1} << 32));
  }
  const std::string secret = cloud_machine_text_at(folder + "/secret");
  const int fd = open("secret", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && write(fd, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  if (fd >= 0) close(fd);
  if (!written) throw Error(ErrorKind::resources, {.where = "secret", .what = "cannot be written", .got = std::strerror(errno)});
}

std::string meet(const std::string& folder, int index, const std::string& own) {
  if (index == 0) {
    tell(folder + "/coordinator", own);
    return own;
  }
  for (const auto begun = CloudMachineClock::now(); CloudMachineClock::now() - begun < kMeetWithin;
       std::this_thread::sleep_for(kCloudMachineLookEvery))
    if (std::string address = cloud_machine_text_at(folder + "/coordinator"); !address.empty()) return address;
  throw Error(ErrorKind::cluster,
              {.where = folder, .what = "machine 0 has not come within 15 minutes", .hint = "`perigee cloud ls` shows the machines"});
}

pid_t start(const Order& order, int index, const std::string& coordinator) {
  std::vector<std::string> words = {"perigee"};
  words.insert(words.end(), order.words.begin(), order.words.end());
  std::vector<std::string> variables;
  if (order.machines > 1) {
    for (const char* word : {"--secret", "secret"}) words.emplace_back(word);
    variables = {"RANK=" + std::to_string(index), "WORLD_SIZE=" + std::to_string(order.machines), "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
                 "MASTER_ADDR=" + coordinator,    "MASTER_PORT=" + std::to_string(order.port)};
  }
  std::vector<char*> arguments, environment;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& variable : variables) environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  arguments.push_back(nullptr), environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, kLog, O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int status = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) throw Error(ErrorKind::resources, {.where = "perigee", .what = "cannot be started again", .got = std::strerror(status)});
  return pid;
}

// Output of the training that the run's folder has not yet, in numbered pieces.
class Output {
 public:
  explicit Output(std::string folder) : folder_(std::move(folder)) {}
  void tell_more() {
    const int fd = open(kLog, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    std::string piece(kMostPiece, '\0');
    for (ssize_t got; (got = pread(fd, piece.data(), piece.size(), static_cast<off_t>(told_))) > 0; told_ += static_cast<uint64_t>(got)) {
      char name[16];
      std::snprintf(name, sizeof name, "%08d", number_++);
      tell(folder_ + "/log/" + name, std::string_view(piece).substr(0, static_cast<size_t>(got)));
    }
    close(fd);
  }
  std::string last() const {
    std::string text(as_text(read_file(kLog, uint64_t{1} << 32)));
    return text.size() > 4000 ? text.substr(text.size() - 4000) : text;
  }

 private:
  const std::string folder_;
  uint64_t told_ = 0;
  int number_ = 1;
};

// The training's exit code. What the store does not take is told later: the training is worth more.
int attend(pid_t pid, const std::string& folder, int index, Metadata& metadata, Output& output) {
  bool asked = false;
  CloudMachineClock::time_point looked{};
  const auto wanted = [&] {
    if (!metadata.get("spot/instance-action").empty()) return true;
    if (CloudMachineClock::now() - looked < kAskEvery) return false;
    looked = CloudMachineClock::now();
    return !cloud_machine_text_at(folder + "/stop").empty();
  };
  CloudMachineClock::time_point killed_at = CloudMachineClock::time_point::max();
  for (int status = 0;; std::this_thread::sleep_for(kCloudMachineLookEvery)) {
    if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    try {
      if (index == 0) output.tell_more();
      if (!asked && wanted()) {
        kill(pid, SIGTERM);  // a worker leaves; the coordinator writes a checkpoint
        asked = true, killed_at = CloudMachineClock::now() + kCloudMachineEndWithin;
      }
    } catch (const Error&) {}
    if (CloudMachineClock::now() > killed_at) kill(pid, SIGKILL);
  }
}

}  // namespace

int run_cloud_machine(const std::string& folder) {
  Metadata metadata;
  const std::string place = metadata.get("ami-launch-index"), own = metadata.get("local-ipv4");
  int index = -1;
  const auto [end, status] = std::from_chars(place.data(), place.data() + place.size(), index);
  if (status != std::errc() || end != place.data() + place.size() || index < 0 || own.empty())
    throw Error(ErrorKind::usage, {.where = "cloud machine",
                                   .what = "this is no machine of EC2: its metadata does not answer",
                                   .hint = "`perigee cloud up aws` starts machines that run this by themselves"});
  Output output(folder);
  int code = static_cast<int>(ErrorKind::cluster);
  std::string last;
  try {
    const Order order = read_order(folder);
    bring_files(folder, order);
    code = attend(start(order, index, meet(folder, index, own)), folder, index, metadata, output);
    if (code != 0 && index > 0) last = output.last();  // machine 0 has told all of it
  } catch (const Error& error) {
    code = static_cast<int>(error.kind()), last = std::string("perigee: ") + error.what() + "\n";
  }
  if (index == 0) {
    output.tell_more();
    tell(folder + "/result", std::to_string(code) + "\n" + last);
  } else if (code != 0) {
    tell(folder + "/failed-" + std::to_string(index), std::to_string(code) + "\n" + last);
  }
  return code;
}

}  // namespace perigee
