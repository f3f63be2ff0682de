// The machine's limit: two processes that each write and read so many bytes over one TCP connection of the loopback device,
// with nothing else done to them and nothing paced, and the speed of a copy in memory. Prints "tcp BYTES SECONDS" and "copy BYTES SECONDS".
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Writes and reads `bytes` at the same time.
void exchange(int fd, const std::vector<char>& out, std::vector<char>& in) {
  constexpr size_t kChunk = 256 << 10;
  size_t written = 0, read_bytes = 0;
  while (written < out.size() || read_bytes < in.size()) {
    bool idle = true;
    if (written < out.size()) {
      const ssize_t n = write(fd, out.data() + written, std::min(kChunk, out.size() - written));
      if (n > 0) written += static_cast<size_t>(n), idle = false;
    }
    if (read_bytes < in.size()) {
      const ssize_t n = read(fd, in.data() + read_bytes, std::min(kChunk, in.size() - read_bytes));
      if (n > 0) read_bytes += static_cast<size_t>(n), idle = false;
    }
    if (!idle) continue;
    pollfd wait{fd, static_cast<short>((written < out.size() ? POLLOUT : 0) | (read_bytes < in.size() ? POLLIN : 0)), 0};
    poll(&wait, 1, 1000);
  }
}

// Before it connects or listens: pacing that has begun stays.
int unpaced_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  const int listener = unpaced_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) || listen(listener, 1)) return 1;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const pid_t child = fork();
  int fd;
  if (child == 0) {
    fd = unpaced_socket();
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), length)) return 1;
  } else {
    fd = accept(listener, nullptr, nullptr);
  }
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  for (int arg = 1; arg < argc; ++arg) {
    const size_t bytes = static_cast<size_t>(std::atoll(argv[arg]));
    std::vector<char> out(bytes, 1), in(bytes, 2);
    const int times = std::max<int>(5, static_cast<int>((size_t{512} << 20) / bytes));
    exchange(fd, out, in);
    double start = now();
    for (int i = 0; i < times; ++i) exchange(fd, out, in);
    if (child) std::printf("tcp %zu %.9f\n", bytes, (now() - start) / times);
    start = now();
    for (int i = 0; i < times; ++i) {
      std::memcpy(in.data(), out.data(), bytes);
      asm volatile("" ::"r"(in.data()) : "memory");
    }
    if (child) std::printf("copy %zu %.9f\n", bytes, (now() - start) / times);
    std::fflush(stdout);
  }
  if (child == 0) _exit(0);
  int status;
  waitpid(child, &status, 0);
}
