#include "repl/commands/train/detach.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "repl/signals.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr const char* kVariable = "PERIGEE_DETACHED";  // "FD PID": where the process that trains tells its folder, and for whom it is meant
constexpr int kLookEveryMs = 50;

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorKind::resources, {.where = "--detach", .what = what, .got = std::strerror(errno)});
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// A file without a name, which all that is written goes to the end of.
int temporary_output() {
  std::error_code status;
  std::string name = (std::filesystem::temp_directory_path(status) / "perigee-output-XXXXXX").string();
  if (status) errno = status.value();
  const int fd = status ? -1 : mkostemp(name.data(), O_APPEND | O_CLOEXEC);
  if (fd < 0) fail("no file for what the run prints can be made");
  unlink(name.c_str());
  return fd;
}

// Shows the output since the last look.
void show_more(int output, off_t* shown) {
  std::array<char, 4096> part;
  for (ssize_t got; (got = pread(output, part.data(), part.size(), *shown)) > 0; *shown += got)
    std::fwrite(part.data(), 1, static_cast<size_t>(got), stdout);
  std::fflush(stdout);
}

std::vector<std::string> arguments_without_detach() {
  std::vector<std::string> arguments;
  std::ifstream file("/proc/self/cmdline");
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  for (size_t at = 0; at < all.size(); at += std::strlen(all.c_str() + at) + 1) arguments.emplace_back(all.c_str() + at);
  std::erase(arguments, "--detach");
  return arguments;
}

pid_t start_detach(int output, int tell) {
  std::vector<std::string> arguments = arguments_without_detach();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  setenv(kVariable, std::to_string(tell).c_str(), 1);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int status = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  unsetenv(kVariable);
  errno = status;
  if (status != 0) fail("the process that trains does not start");
  return pid;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void tell_how_to_go_on(const std::string& folder, pid_t pid) {
  std::printf(
      "\nit goes on without this terminal, as process %d; what it prints is in %s/output.txt\n"
      "  follow it:  perigee watch %s\n"
      "  steer it:   perigee attach %s\n"
      "  stop it, with a checkpoint:  kill %d\n",
      pid, folder.c_str(), folder.c_str(), folder.c_str(), pid);
}

}  // namespace

int train_detached() {
  const Descriptor output(temporary_output());
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("no pipe can be made");
  const Descriptor told(ends[0]);
  Descriptor tell(ends[1]);
  fcntl(tell.get(), F_SETFD, 0);  // the process that trains has it
  const pid_t pid = start_detach(output.get(), tell.get());
  tell.close();
  off_t shown = 0;
  std::string folder;
  bool asked_to_stop = false;
  for (;;) {
    pollfd ready{.fd = told.get(), .events = POLLIN, .revents = 0};
    const int count = poll(&ready, 1, kLookEveryMs);
    show_more(output.get(), &shown);
    if (stop_requested() && !asked_to_stop) asked_to_stop = kill(pid, SIGINT) == 0;
    if (count <= 0) continue;
    std::array<char, 4096> part;
    const ssize_t got = read(told.get(), part.data(), part.size());
    if (got > 0) folder.append(part.data(), static_cast<size_t>(got));
    else if (got == 0 || errno != EINTR) break;
  }
  if (!folder.empty()) return tell_how_to_go_on(folder, pid), 0;
  int status = 0;  // it has closed its end without a folder: it ends
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  show_more(output.get(), &shown);
  return code_of(status);
}

Detached::Detached() {
  const char* const given = std::getenv(kVariable);
  if (!given) return;
  std::from_chars(given, given + std::strlen(given), tell_);
  unsetenv(kVariable);
  if (tell_ >= 0 && fcntl(tell_, F_SETFD, FD_CLOEXEC) != 0) tell_ = -1;  // not for this process's children
}

Detached::~Detached() {
  if (tell_ >= 0) close(tell_);
}

void Detached::begins(const std::string& folder) {
  if (tell_ < 0) return;
  const Descriptor output(open((folder + "/output.txt").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (output.get() < 0) fail("the file for what the run prints cannot be written");
  std::fflush(nullptr);
  std::array<char, 4096> part;
  off_t from = 0;
  for (ssize_t got; (got = pread(STDOUT_FILENO, part.data(), part.size(), from)) > 0; from += got)
    if (write(output.get(), part.data(), static_cast<size_t>(got)) != got) fail("the file for what the run prints cannot be written");
  dup2(output.get(), STDOUT_FILENO);
  dup2(output.get(), STDERR_FILENO);
  const ssize_t written = write(tell_, folder.data(), folder.size());
  close(tell_);
  tell_ = -1;
  if (written < 0) return;  // nobody waits any more, which is no reason to stop
}

}  // namespace perigee
