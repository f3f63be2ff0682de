#include "repl/console/job_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

extern char** environ;

namespace perigee {
namespace {

constexpr std::chrono::milliseconds kDeadline{2000};
constexpr size_t kMostBytes = size_t{4} << 20;

// In a group of its own, so that what the script starts ends with it. Nothing of it reaches the terminal.
pid_t start(const std::string& path, int output) {
  std::string words[] = {"perigee", "completion", "job", path};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  if (posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments, environ) != 0) child = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

// Whether all of it came in time.
bool read_all(int input, std::string* text) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd file{input, POLLIN, 0};
    const int ready = left > 0 ? poll(&file, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || text->size() > kMostBytes) return false;
    char part[1 << 16];
    const ssize_t count = read(input, part, sizeof part);
    if (count == 0) return true;
    if (count > 0) text->append(part, static_cast<size_t>(count));
    else if (errno != EINTR) return false;
  }
}

}  // namespace

std::string job_of_script(const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = start(path, ends[1]);
  close(ends[1]);
  std::string text;
  const bool whole = child > 0 && read_all(ends[0], &text);
  close(ends[0]);
  int status = -1;
  if (child > 0) {
    if (!whole) kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  }
  return whole && status == 0 ? text : "";
}

}  // namespace perigee
