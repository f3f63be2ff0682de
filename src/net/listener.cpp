#include "src/net/listener.h"

#include <uv.h>

#include <cassert>
#include <utility>

#include "src/core/error.h"
#include "src/net/address.h"
#include "src/net/loopback.h"

namespace perigee {
namespace {

constexpr int kBacklog = 511;

}  // namespace

struct Listener::Impl {
  uv_any_handle handle = {};
  UvLoop* loop = nullptr;
  Incoming incoming;
  std::string address;

  static void close(std::unique_ptr<Impl> impl) {
    uv_handle_t* handle = &impl->handle.handle;
    [[maybe_unused]] const Impl* owned_by_libuv = impl.release();
    uv_close(handle, [](uv_handle_t* closed) { std::unique_ptr<Impl>(static_cast<Impl*>(closed->data)); });
  }

  int listen() {
    return uv_listen(&handle.stream, kBacklog, [](uv_stream_t* server, int status) {
      Impl* impl = static_cast<Impl*>(server->data);
      impl->loop->guard([&] { impl->incoming(server, status); });
    });
  }

  int listen_unix(const std::string& path) {
    uv_pipe_init(loop->handle(), &handle.pipe, 0);
    address = kUnixScheme + path;
    const int status = uv_pipe_bind(&handle.pipe, path.c_str());
    return status == 0 ? listen() : status;
  }

  int listen_tcp(const HostPort& wanted, sockaddr_storage at) {
    uv_tcp_init(loop->handle(), &handle.tcp);
    const auto* target = reinterpret_cast<const sockaddr*>(&at);
    int status = uv_tcp_bind(&handle.tcp, target, 0);
    if (status == UV_EAFNOSUPPORT && wanted.host.empty() && numeric_address({"0.0.0.0", wanted.port}, &at))
      status = uv_tcp_bind(&handle.tcp, target, 0);  // a machine without IPv6
    uv_os_fd_t fd = -1;
    if (status == 0 && is_loopback(target) && uv_fileno(&handle.handle, &fd) == 0) tune_for_loopback(fd);
    if (status == 0) status = listen();
    int size = sizeof at;
    if (status == 0) status = uv_tcp_getsockname(&handle.tcp, reinterpret_cast<sockaddr*>(&at), &size);
    address = to_host_port(target).text();
    return status;
  }
};

Listener::Listener(UvLoop& loop, const std::string& address, Incoming incoming, const std::string& where)
    : impl_(std::make_unique<Impl>()) {
  assert(incoming);
  impl_->loop = &loop;
  impl_->incoming = std::move(incoming);
  const std::string scheme = kUnixScheme;
  const bool is_unix = address.starts_with(scheme);
  const HostPort wanted = is_unix ? HostPort{} : parse_host_port(address, where);
  const sockaddr_storage at = is_unix ? sockaddr_storage{} : address_to_listen(wanted);
  const int status = is_unix ? impl_->listen_unix(address.substr(scheme.size())) : impl_->listen_tcp(wanted, at);
  impl_->handle.handle.data = impl_.get();
  if (status == 0) return;
  Impl::close(std::move(impl_));
  const char* hint = status == UV_EADDRINUSE && is_unix ? "another program listens here, or its file was left behind: remove it"
                     : status == UV_EADDRINUSE          ? "another program has this port: choose another, or port 0 for a free one"
                     : status == UV_EADDRNOTAVAIL       ? "no interface of this machine has this address"
                     : status == UV_EACCES && !is_unix  ? "ports below 1024 are for root: choose a higher one"
                     : is_unix                          ? "the folder of the socket must exist, and this user may write there"
                                                        : "";
  throw Error(ErrorKind::resources,
              {.where = where + " " + address, .what = "cannot listen here", .got = uv_strerror(status), .hint = hint});
}

Listener::~Listener() {
  if (impl_) Impl::close(std::move(impl_));
}

const std::string& Listener::address() const { return impl_->address; }

}  // namespace perigee
