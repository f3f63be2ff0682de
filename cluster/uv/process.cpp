#include "cluster/uv/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cassert>
#include <cstring>
#include <map>

namespace perigee {
namespace {

constexpr size_t kMaxLine = 4096;

// Nothing that this process (or a library in it) opened without O_CLOEXEC reaches a child.
void close_on_exec() {
#ifdef CLOSE_RANGE_CLOEXEC
  close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
#endif
}

// A sealed piece of memory that only the child's descriptor leads to; -1 when there is none to be had.
int key_memory(const std::string& key) {
  const int memory = memfd_create("perigee-key", MFD_CLOEXEC);
  if (memory < 0) return -1;
  if (write(memory, key.data(), key.size()) != static_cast<ssize_t>(key.size()) || lseek(memory, 0, SEEK_SET) != 0) {
    close(memory);
    return -1;
  }
  return memory;
}

// The last lines that a process wrote, without empty ones at the end.
void keep_tail(std::string* tail, const char* bytes, size_t size) {
  tail->append(bytes, size);
  if (tail->size() > 2 * kTailBytes) tail->erase(0, tail->size() - kTailBytes);
}

}  // namespace

void follow_parent(int parent, int signal) {
  if (parent <= 0) return;
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) raise(signal);  // it died before the call
}

void outlive_parent() { prctl(PR_SET_PDEATHSIG, 0); }

struct UvProcesses::Impl {
  // One child: its process handle and the pipe of its standard error. Freed when it has ended and both are closed.
  struct Child {
    Impl* owner = nullptr;
    uv_process_t process = {};
    uv_pipe_t errors = {};
    uint32_t pid = 0;
    std::string name, tail, line;
    bool exited = false, drained = false, told = false;
    int handles = 0, code = 0, signal = 0;
    char buffer[4096];
  };

  uv_loop_t* loop;
  UvProcessOptions options;
  OnExit on_exit;
  OnLine on_line;
  std::map<uint32_t, std::unique_ptr<Child>> children;
  bool ending = false;

  void take(Child& child, const char* bytes, size_t size) {
    keep_tail(&child.tail, bytes, size);
    if (!on_line) return;
    for (size_t i = 0; i < size; ++i) {
      if (bytes[i] != '\n') {
        if (child.line.size() < kMaxLine) child.line += bytes[i];
        continue;
      }
      if (!child.line.empty()) on_line(child.name, child.line);
      child.line.clear();
    }
  }

  // The end is told once the process is gone and its last words are read.
  void tell(Child& child) {
    if (!child.exited || !child.drained || child.told) return;
    child.told = true;
    if (!child.line.empty() && on_line) on_line(child.name, child.line);
    if (child.tail.size() > kTailBytes) child.tail.erase(0, child.tail.size() - kTailBytes);
    while (!child.tail.empty() && (child.tail.back() == '\n' || child.tail.back() == ' ')) child.tail.pop_back();
    const auto close_handle = [](uv_handle_t* handle) {
      Child* closed = static_cast<Child*>(handle->data);
      if (--closed->handles == 0) closed->owner->children.erase(closed->pid);
    };
    const uint32_t pid = child.pid;
    const int code = child.code, signal = child.signal;
    const std::string tail = child.tail;
    for (uv_handle_t* handle : {reinterpret_cast<uv_handle_t*>(&child.process), reinterpret_cast<uv_handle_t*>(&child.errors)})
      if (!uv_is_closing(handle)) uv_close(handle, close_handle);
    if (!ending) on_exit(pid, code, signal, tail);
  }

  // The status of uv_spawn. `key` is what the process reads its key from.
  int spawn(Child& child, char** arguments, int key) {
    child.process.data = child.errors.data = &child;
    child.handles = 2;
    uv_pipe_init(loop, &child.errors, 0);
    uv_stdio_container_t streams[4] = {};
    streams[0].flags = UV_IGNORE;  // /dev/null
    streams[1].flags = UV_IGNORE;
    streams[2].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
    streams[2].data.stream = reinterpret_cast<uv_stream_t*>(&child.errors);
    streams[3].flags = UV_INHERIT_FD;
    streams[3].data.fd = key;
    uv_process_options_t process = {};
    process.exit_cb = on_process_exit;
    process.file = options.program.c_str();
    process.args = arguments;
    process.cwd = options.folder.empty() ? nullptr : options.folder.c_str();
    process.stdio_count = 4;
    process.stdio = streams;
    // A session of its own: Ctrl-C on the terminal, or a signal to the launcher's group, is the launcher's to answer.
    process.flags = UV_PROCESS_DETACHED;
    close_on_exec();
    return uv_spawn(loop, &child.process, &process);
  }

  // Closes a process that could not be started. Both handles exist even so; they are closed like those of a process that has ended.
  void drop(std::unique_ptr<Child> child) {
    child->exited = child->drained = child->told = true;
    static uint32_t failures = 0;
    child->pid = 0x80000000u + ++failures;  // no process id is so large
    const auto closed = [](uv_handle_t* handle) {
      Child* gone = static_cast<Child*>(handle->data);
      if (--gone->handles == 0) gone->owner->children.erase(gone->pid);
    };
    uv_close(reinterpret_cast<uv_handle_t*>(&child->process), closed);
    uv_close(reinterpret_cast<uv_handle_t*>(&child->errors), closed);
    const uint32_t pid = child->pid;
    children[pid] = std::move(child);
  }

  static void give_buffer(uv_handle_t* handle, size_t, uv_buf_t* buffer) {
    Child& child = *static_cast<Child*>(handle->data);
    *buffer = uv_buf_init(child.buffer, sizeof child.buffer);
  }

  static void on_read(uv_stream_t* stream, ssize_t size, const uv_buf_t* buffer) {
    Child& child = *static_cast<Child*>(stream->data);
    if (size > 0) return child.owner->take(child, buffer->base, static_cast<size_t>(size));
    if (size == 0) return;
    uv_read_stop(stream);
    child.drained = true;
    child.owner->tell(child);
  }

  static void on_process_exit(uv_process_t* process, int64_t code, int signal) {
    Child& child = *static_cast<Child*>(process->data);
    child.exited = true;
    child.code = static_cast<int>(code);
    child.signal = signal;
    // A grandchild may hold the pipe open: what is there now is all that is waited for.
    for (;;) {
      uv_os_fd_t descriptor;
      if (child.drained || uv_fileno(reinterpret_cast<uv_handle_t*>(&child.errors), &descriptor) != 0) break;
      const ssize_t size = read(descriptor, child.buffer, sizeof child.buffer);
      if (size <= 0) break;
      child.owner->take(child, child.buffer, static_cast<size_t>(size));
    }
    uv_read_stop(reinterpret_cast<uv_stream_t*>(&child.errors));
    child.drained = true;
    child.owner->tell(child);
  }
};

std::vector<std::string> UvProcesses::command_line(const WorkerProcess& process, const UvProcessOptions& options) {
  std::vector<std::string> words = {"worker",    process.name,
                                    "--join",    process.coordinator,
                                    "--key-fd",  std::to_string(kKeyDescriptor),
                                    "--threads", std::to_string(process.threads)};
  if (!process.standby) words.insert(words.end(), {"--slot", std::to_string(process.slot)});
  if (process.standby) words.push_back("--standby");
  if (process.op_by_op) words.push_back("--op-by-op");
  if (options.die_with_parent) words.insert(words.end(), {"--parent", std::to_string(getpid())});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return words;
}

UvProcesses::UvProcesses(uv_loop_s* loop, UvProcessOptions options, OnExit on_exit, OnLine on_line)
    : impl_(std::make_unique<Impl>(
          Impl{.loop = loop, .options = std::move(options), .on_exit = std::move(on_exit), .on_line = std::move(on_line)})) {
  if (!impl_->options.program.empty()) return;
  // Resolved now: the file may be replaced (an upgrade) while workers are still to be started.
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  impl_->options.program = size > 0 ? std::string(path, static_cast<size_t>(size)) : "/proc/self/exe";
}

UvProcesses::~UvProcesses() {
  impl_->ending = true;
  for (auto& [pid, child] : impl_->children)
    if (!child->exited) uv_process_kill(&child->process, SIGKILL);
  while (!impl_->children.empty()) uv_run(impl_->loop, UV_RUN_ONCE);
}

uint32_t UvProcesses::start(const WorkerProcess& process, std::string* error) {
  assert(!impl_->ending);
  const int key = key_memory(process.standby ? process.key + "\n" + impl_->options.secret : process.key);
  if (key < 0) {
    *error = std::string("no memory for a worker's key: ") + std::strerror(errno);
    return 0;
  }
  const std::vector<std::string> words = command_line(process, impl_->options);
  std::string title = "perigee";
  std::vector<char*> arguments = {title.data()};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  auto child = std::make_unique<Impl::Child>();
  child->owner = impl_.get();
  child->name = process.name;
  const int status = impl_->spawn(*child, arguments.data(), key);
  close(key);
  if (status != 0) {
    *error = "a worker could not be started (" + impl_->options.program + "): " + uv_strerror(status);
    impl_->drop(std::move(child));
    return 0;
  }
  child->pid = static_cast<uint32_t>(child->process.pid);
  uv_read_start(reinterpret_cast<uv_stream_t*>(&child->errors), Impl::give_buffer, Impl::on_read);
  const uint32_t pid = child->pid;
  impl_->children[pid] = std::move(child);
  return pid;
}

void UvProcesses::stop(uint32_t process, bool now) {
  const auto found = impl_->children.find(process);
  if (found == impl_->children.end() || found->second->exited) return;
  uv_process_kill(&found->second->process, now ? SIGKILL : SIGTERM);
}

size_t UvProcesses::running() const {
  size_t count = 0;
  for (const auto& [pid, child] : impl_->children) count += !child->exited;
  return count;
}

}  // namespace perigee
