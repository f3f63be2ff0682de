#include "repl/commands/predict/slices.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "repl/signals.h"
#include "src/core/error.h"

extern char** environ;

namespace perigee {
namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct Running {
  pid_t pid = -1;
  std::unique_ptr<std::FILE, Closer> output;
};

Running start_slices(const std::vector<std::string>& arguments, const std::string& slice) {
  Running child;
  child.output.reset(std::tmpfile());
  if (!child.output)
    throw Error(ErrorKind::resources, {"--workers", "there is no room for the processes' output", std::strerror(errno), "",
                                       "give fewer workers, or make room in /tmp"});
  fcntl(fileno(child.output.get()), F_SETFD, FD_CLOEXEC);
  std::vector<std::string> words = {"perigee"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--slice", slice});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(child.output.get()), STDOUT_FILENO);
  const int status = posix_spawn(&child.pid, "/proc/self/exe", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0)
    throw Error(ErrorKind::resources, {"--workers", "a process could not be started", std::strerror(status), "",
                                       "give fewer workers, or make the environment shorter"});
  return child;
}

int wait_for(const Running& child) {
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

}  // namespace

Slice parse_slice(const std::string& text) {
  Slice slice;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, slice.index);
  const bool cut = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = cut ? std::from_chars(first.ptr + 1, end, slice.count) : first;
  if (!cut || second.ec != std::errc() || second.ptr != end || slice.index < 0 || slice.count < 1 || slice.count > 4096 ||
      slice.index >= slice.count)
    throw Error(ErrorKind::usage, {"--slice", "is no slice", text, "for example 0/4"});
  return slice;
}

int run_slices(const std::vector<std::string>& arguments, int64_t count, const std::function<void(std::FILE* output)>& take) {
  std::fflush(stdout);
  std::vector<Running> children;
  struct EndAll {
    std::vector<Running>& children;
    ~EndAll() {
      for (const Running& child : children)
        if (child.pid > 0) kill(child.pid, SIGKILL), wait_for(child);
    }
  } end_all{children};
  const auto name = [&](int64_t i) { return std::to_string(i) + "/" + std::to_string(count); };
  int partly = 0;
  for (int64_t i = 0; i < count; ++i) children.push_back(start_slices(arguments, name(i)));
  for (int64_t i = 0; i < count; ++i) {
    Running& child = children[static_cast<size_t>(i)];
    int status = wait_for(child);
    if (WIFSIGNALED(status) && !stop_requested()) {
      child.pid = -1;
      child = start_slices(arguments, name(i));  // what it did is lost with it, and nothing else
      status = wait_for(child);
    }
    child.pid = -1;
    if (stop_requested()) return partly;
    if (WIFEXITED(status) && WEXITSTATUS(status) > kPartlyFailed && WEXITSTATUS(status) < 2 * kPartlyFailed) {
      partly = std::max(partly, WEXITSTATUS(status) - kPartlyFailed);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      const ErrorKind kind = code >= 2 && code <= 7 ? static_cast<ErrorKind>(code) : ErrorKind::cluster;
      throw Error(kind, {.where = "worker " + std::to_string(i),
                         .what = WIFSIGNALED(status) ? "was killed twice, by signal " + std::to_string(WTERMSIG(status))
                                                     : "ended with code " + std::to_string(code) + ", as it says above",
                         .hint = WIFSIGNALED(status) ? "signal 9 often means that memory ran out: give fewer workers" : ""});
    }
    std::rewind(child.output.get());
    take(child.output.get());
    child.output.reset();
  }
  return partly;
}

}  // namespace perigee
