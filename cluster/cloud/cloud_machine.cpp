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

#include "cluster/cloud/cloud_folder.h"
#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/io/store/instance_metadata.h"

namespace perigee {
namespace {

using CloudMachineClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kMeetWithin = 15min;            // the machines of one order begin minutes apart
constexpr auto kCloudMachineLookEvery = 2s;    // for output and notices
constexpr auto kAskEvery = 10s;                // whether the caller wants to end: each look is two paid requests
constexpr auto kCloudMachineEndWithin = 100s;  // AWS takes a machine two minutes after its notice
constexpr auto kTellWithin = 60s;              // how it ended
constexpr uint64_t kMostPiece = 1 << 20;
constexpr uint64_t kLastOutput = 4000;  // that is told of a machine that failed

void tell(const std::string& path, std::string_view text) { write_file(path, as_bytes(text)); }

struct Order {
  std::vector<std::string> words, files;
  int machines = 1, port = 0;
};

Order read_order(const CloudFolder& folder) {
  const Json json = Json::parse(text_in_store(folder.order()), folder.order(), 10'000);
  const Config config(json, folder.order());
  Order order{.words = config.string_list("words"),
              .files = config.string_list("files"),
              .machines = static_cast<int>(config.integer_in("machines", 1, 65536)),
              .port = static_cast<int>(config.integer_in("port", 1, 65535))};
  config.reject_unread();
  return order;
}

void bring_files(const CloudFolder& folder, const Order& order) {
  for (const std::string& file : order.files) {
    if (file.find('/') != std::string::npos || file.starts_with('.'))
      throw Error(ErrorKind::data, {.where = folder.order(), .what = "names a file outside of the run", .got = "'" + file + "'"});
    write_file(file, read_file(folder.file(file), uint64_t{1} << 32));
  }
  const std::string secret = text_in_store(folder.secret());
  const int fd = open(kSecretFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && write(fd, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  if (fd >= 0) close(fd);
  if (!written) throw Error(ErrorKind::resources, {.where = kSecretFile, .what = "cannot be written", .got = std::strerror(errno)});
}

std::string meet(const CloudFolder& folder, int index, const std::string& own) {
  if (index == 0) {
    tell(folder.coordinator(), own);
    return own;
  }
  for (const auto begun = CloudMachineClock::now(); CloudMachineClock::now() - begun < kMeetWithin;
       std::this_thread::sleep_for(kCloudMachineLookEvery))
    if (std::string address = text_in_store(folder.coordinator()); !address.empty()) return address;
  throw Error(
      ErrorKind::cluster,
      {.where = folder.address(), .what = "machine 0 has not come within 15 minutes", .hint = "`perigee cloud ls` shows the machines"});
}

pid_t start(const Order& order, int index, const std::string& coordinator) {
  std::vector<std::string> words = {"perigee"};
  words.insert(words.end(), order.words.begin(), order.words.end());
  std::vector<std::string> variables;
  if (order.machines > 1) {
    for (const char* word : {"--secret", kSecretFile}) words.emplace_back(word);
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
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, kOutputFile, O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int status = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) throw Error(ErrorKind::resources, {.where = "perigee", .what = "cannot be started again", .got = std::strerror(status)});
  return pid;
}

// Output of the training that the run's folder has not yet, in numbered pieces. What the store refuses is told the next time.
class Output {
 public:
  explicit Output(CloudFolder folder) : folder_(std::move(folder)) {}
  void tell_more() {
    for (std::string piece; !(piece = read(told_, kMostPiece)).empty(); told_ += piece.size(), ++number_)
      tell(folder_.output(number_), piece);
  }
  static std::string last() {
    struct stat about {};
    const uint64_t size = stat(kOutputFile, &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
    return read(size - std::min(size, kLastOutput), kLastOutput);
  }

 private:
  // So many bytes of the file, or those that are there.
  static std::string read(uint64_t from, uint64_t most) {
    std::string text(most, '\0');
    const int fd = open(kOutputFile, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? 0 : pread(fd, text.data(), text.size(), static_cast<off_t>(from));
    if (fd >= 0) close(fd);
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

  const CloudFolder folder_;
  uint64_t told_ = 0;
  int number_ = 1;
};

// Calls that reach for the store, whose faults cost what they would have told or heard, and no training.
template <class Call>
void unless_away(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    warn(error.what());
  }
}

// The last words, for which a store that is away may come back.
template <class Call>
void at_last(const Call& call) {
  for (const auto begun = CloudMachineClock::now(); CloudMachineClock::now() - begun < kTellWithin;
       std::this_thread::sleep_for(kCloudMachineLookEvery)) {
    try {
      return call();
    } catch (const Error& error) {
      warn(error.what());
    }
  }
}

// The training's exit code.
int attend(pid_t pid, const CloudFolder& folder, int index, InstanceMetadata& metadata, Output& output) {
  bool ends = false;
  CloudMachineClock::time_point asked{}, killed_at = CloudMachineClock::time_point::max();
  for (int status = 0;; std::this_thread::sleep_for(kCloudMachineLookEvery)) {
    if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const auto now = CloudMachineClock::now();
    bool wanted = !ends && !metadata.get("spot/instance-action").empty();
    if (!ends && !wanted && now - asked > kAskEvery) {
      asked = now;
      unless_away([&] { wanted = !text_in_store(folder.stop()).empty(); });
    }
    if (wanted) {
      kill(pid, SIGTERM);  // a worker leaves; the coordinator writes a checkpoint
      ends = true, killed_at = now + kCloudMachineEndWithin;
    }
    if (index == 0) unless_away([&] { output.tell_more(); });
    if (now > killed_at) kill(pid, SIGKILL);
  }
}

}  // namespace

int run_cloud_machine(const std::string& address) {
  const CloudFolder folder(address);
  InstanceMetadata metadata;
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
    if (code != 0 && index > 0) last = Output::last();  // machine 0 has told all of it
  } catch (const Error& error) {
    code = static_cast<int>(error.kind()), last = std::string("perigee: ") + error.what() + "\n";
  }
  const std::string words = std::to_string(code) + "\n" + last;
  if (index == 0)
    at_last([&] {
      output.tell_more();
      tell(folder.result(), words);
    });
  else if (code != 0) at_last([&] { tell(folder.failed(index), words); });
  return code;
}

}  // namespace perigee
