#include "src/run/run_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace perigee {
namespace {

using SocketClock = std::chrono::steady_clock;

constexpr int kSocketGlanceMs = 50;
constexpr auto kSendLimit = std::chrono::seconds(10);

SocketHandle unix_socket() { return SocketHandle(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// A socket's address has room for 107 letters, which the paths of run folders may exceed: the folder is named by its descriptor.
class SocketAddress {
 public:
  explicit SocketAddress(const std::string& folder) : folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    address_.sun_family = AF_UNIX;
    const std::string path = "/proc/self/fd/" + std::to_string(folder_.get()) + "/" + kRunSocket;
    std::strncpy(address_.sun_path, path.c_str(), sizeof address_.sun_path - 1);
  }
  bool found() const { return static_cast<bool>(folder_); }
  const char* path() const { return address_.sun_path; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static constexpr socklen_t kSize = sizeof(sockaddr_un);

 private:
  SocketHandle folder_;
  sockaddr_un address_ = {};
};

bool is_ready(int descriptor, short events, int milliseconds) {
  pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
  return ::poll(&waiting, 1, milliseconds) > 0;
}

}  // namespace

SocketHandle& SocketHandle::operator=(SocketHandle&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

SocketHandle::~SocketHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SocketHandle listen_in(const std::string& folder) {
  constexpr int kWaiting = 8;
  const SocketAddress address(folder);
  SocketHandle socket = unix_socket();
  if (!address.found() || !socket) return {};
  if (connect_in(folder) || errno == EAGAIN) {  // EAGAIN: a process is there, and many wait for it
    errno = EADDRINUSE;
    return {};
  }
  ::unlink(address.path());
  // The rights of the file are those of the socket when it is bound: there is no moment at which others could open it.
  if (::fchmod(socket.get(), S_IRUSR | S_IWUSR) != 0 || ::bind(socket.get(), address.get(), SocketAddress::kSize) != 0) return {};
  if (::chmod(address.path(), S_IRUSR | S_IWUSR) != 0 || ::listen(socket.get(), kWaiting) != 0) return {};
  return socket;
}

SocketHandle connect_in(const std::string& folder) {
  const SocketAddress address(folder);
  SocketHandle socket = unix_socket();
  if (!address.found() || !socket || ::connect(socket.get(), address.get(), SocketAddress::kSize) != 0) return {};
  return socket;
}

SocketHandle accept_from(const SocketHandle& listening) {
  SocketHandle accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (!accepted || ::getsockopt(accepted.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  if (peer.uid == ::geteuid() || peer.uid == 0) return accepted;
  errno = EPERM;
  return {};
}

bool LineConnection::send(const std::string& line, const std::atomic<bool>* cancel) {
  const std::string text = line + "\n";
  const auto end = SocketClock::now() + kSendLimit;
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t more = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more > 0) {
      sent += static_cast<size_t>(more);
      continue;
    }
    const bool waits = more < 0 && (errno == EAGAIN || errno == EINTR);
    if (!waits || (cancel && *cancel) || SocketClock::now() >= end) return close(), false;
    is_ready(socket_.get(), POLLOUT, kSocketGlanceMs);
  }
  return true;
}

std::optional<std::string> LineConnection::receive(const std::atomic<bool>* cancel, std::chrono::milliseconds most) {
  const auto latest = SocketClock::now() + most;
  while (socket_) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if ((cancel && *cancel) || SocketClock::now() >= latest) return {};
    if (!is_ready(socket_.get(), POLLIN, kSocketGlanceMs)) continue;
    char bytes[4096];
    const ssize_t more = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (more < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (more <= 0 || received_.size() + static_cast<size_t>(more) > kLongest) close();
    else received_.append(bytes, static_cast<size_t>(more));
  }
  return {};
}

Json error_json(const Error& error) {
  const Error::Parts& parts = error.parts();
  return Json(Json::Object{{"kind", static_cast<int64_t>(error.kind())},
                           {"where", parts.where},
                           {"what", parts.what},
                           {"got", parts.got},
                           {"expected", parts.expected},
                           {"hint", parts.hint}});
}

Error error_of(const Json& json, const std::string& where) {
  const auto text = [&](const char* key) {
    const Json* value = json.find(key);
    return value && value->is_string() ? value->as_string() : std::string();
  };
  const Json* kind = json.find("kind");
  const int64_t number = kind && kind->is_int() ? kind->as_int() : 0;
  const bool known = number >= static_cast<int64_t>(ErrorKind::usage) && number <= static_cast<int64_t>(ErrorKind::resources);
  const std::string place = text("where");
  return {known ? static_cast<ErrorKind>(number) : ErrorKind::usage,
          {place.empty() ? where : place, text("what"), text("got"), text("expected"), text("hint")}};
}

}  // namespace perigee
