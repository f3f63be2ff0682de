#include "src/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <cassert>
#include <charconv>
#include <cstring>
#include <memory>
#include <span>

#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

[[noreturn]] void refuse(std::string_view where, std::string what, std::string_view got, std::string expected, std::string hint = "") {
  throw Error(ErrorKind::usage, {.where = std::string(where),
                                 .what = std::move(what),
                                 .got = "'" + std::string(got) + "'",
                                 .expected = std::move(expected),
                                 .hint = std::move(hint)});
}

bool parse_number(std::string_view text, int most, int* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0 && *value <= most && !text.empty() && text[0] != '-';
}

struct Interface {
  std::string name;
  sockaddr_storage address;
};

std::vector<Interface> interfaces() {
  uv_interface_address_t* list = nullptr;
  int count = 0;
  if (uv_interface_addresses(&list, &count) != 0) return {};
  const auto release = [&count](uv_interface_address_t* p) { uv_free_interface_addresses(p, count); };
  const std::unique_ptr<uv_interface_address_t, decltype(release)> owner(list, release);
  std::vector<Interface> found;
  for (const auto& entry : std::span(list, static_cast<size_t>(count))) {
    Interface one{.name = entry.name, .address = {}};
    if (entry.address.address4.sin_family == AF_INET6) std::memcpy(&one.address, &entry.address.address6, sizeof entry.address.address6);
    else std::memcpy(&one.address, &entry.address.address4, sizeof entry.address.address4);
    found.push_back(std::move(one));
  }
  return found;
}

const sockaddr* as_sockaddr(const sockaddr_storage& address) { return reinterpret_cast<const sockaddr*>(&address); }

}  // namespace

std::string HostPort::text() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

HostPort parse_host_port(std::string_view text, std::string_view where) {
  static constexpr const char* kExpected = "host:port, [IPv6]:port or :port";
  std::string_view host, port = text;
  if (text.starts_with('[')) {
    const size_t end = text.find("]:");
    if (end == std::string_view::npos) refuse(where, "not an address", text, kExpected);
    host = text.substr(1, end - 1), port = text.substr(end + 2);
    in6_addr ignored;
    const std::string number(host.substr(0, host.find('%')));
    if (inet_pton(AF_INET6, number.c_str(), &ignored) != 1) refuse(where, "not an IPv6 address", host, "such as [::1]:7700");
  } else if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon), port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos)
      refuse(where, "not an address", text, kExpected,
             "an IPv6 address is written in brackets: [" + std::string(host) + "]:" + std::string(port));
  }
  int number = 0;
  if (!parse_number(port, 65535, &number)) refuse(where, "an address needs a port from 0 to 65535", text, kExpected);
  if (host.size() > 253 || host.find_first_of(" \t\r\n/@") != std::string_view::npos) refuse(where, "not a host name", host, kExpected);
  return {std::string(host), static_cast<uint16_t>(number)};
}

bool numeric_address(const HostPort& address, sockaddr_storage* out) {
  std::memset(out, 0, sizeof *out);
  return uv_ip4_addr(address.host.c_str(), address.port, reinterpret_cast<sockaddr_in*>(out)) == 0 ||
         uv_ip6_addr(address.host.c_str(), address.port, reinterpret_cast<sockaddr_in6*>(out)) == 0;
}

std::vector<sockaddr_storage> resolve(const HostPort& address) {
  const addrinfo hints{.ai_flags = AI_PASSIVE | AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  const std::string port = std::to_string(address.port);
  const int status = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), port.c_str(), &hints, &list);
  if (status != 0)
    throw Error(ErrorKind::usage, {.where = address.text(),
                                   .what = "no machine of this name is known",
                                   .got = gai_strerror(status),
                                   .hint = "check its spelling, or give its address in numbers"});
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<sockaddr_storage> found;
  for (const addrinfo* entry = list; entry && found.size() < 16; entry = entry->ai_next) {
    sockaddr_storage one{};
    assert(entry->ai_addrlen <= sizeof one);
    std::memcpy(&one, entry->ai_addr, entry->ai_addrlen);
    found.push_back(one);
  }
  return found;
}

sockaddr_storage address_to_listen(const HostPort& wanted) {
  sockaddr_storage at{};
  if (!numeric_address(wanted.host.empty() ? HostPort{"::", wanted.port} : wanted, &at)) at = resolve(wanted).front();
  return at;
}

HostPort to_host_port(const sockaddr* address) {
  char text[64] = "";
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    uv_ip4_name(v4, text, sizeof text);
    return {text, ntohs(v4->sin_port)};
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    uv_ip6_name(v6, text, sizeof text);
    return {text, ntohs(v6->sin6_port)};
  }
  return {"local", 0};
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] ? name : "host";
}

// The kernel's boot id is a random number of this machine, which its containers share.
std::string host_identity() {
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  try {
    const Bytes text = read_file(kBootId);
    const std::string_view id = as_text(text);
    return host_name() + "#" + std::string(id.substr(0, id.find_first_of("\r\n")));
  } catch (const Error&) {  // no /proc here: the name has to do
    return host_name();
  }
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

bool is_any(const sockaddr* address) {
  if (address->sa_family == AF_INET) return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == INADDR_ANY;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

Cidr parse_cidr(std::string_view text, std::string_view where) {
  static constexpr const char* kExpected = "such as 10.0.0.0/16";
  const size_t slash = text.find('/');
  const std::string host(text.substr(0, slash));
  Cidr cidr;
  if (inet_pton(AF_INET, host.c_str(), cidr.bytes) == 1) cidr.family = AF_INET;
  else if (inet_pton(AF_INET6, host.c_str(), cidr.bytes) == 1) cidr.family = AF_INET6;
  else refuse(where, "not a network", text, kExpected);
  const int most = cidr.family == AF_INET ? 32 : 128;
  cidr.bits = most;
  if (slash != std::string_view::npos && !parse_number(text.substr(slash + 1), most, &cidr.bits))
    refuse(where, "not a network", text, kExpected);
  return cidr;
}

bool Cidr::contains(const sockaddr* address) const {
  if (address->sa_family != family) return false;
  const auto* other = family == AF_INET ? reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                                        : reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr.s6_addr;
  const int whole = bits / 8, rest = bits % 8;
  if (std::memcmp(bytes, other, static_cast<size_t>(whole)) != 0) return false;
  return rest == 0 || (bytes[whole] ^ other[whole]) >> (8 - rest) == 0;
}

std::string local_address_in(std::string_view cidr) {
  const Cidr wanted = parse_cidr(cidr, "--interface");
  std::string there;
  for (const Interface& one : interfaces()) {
    const std::string host = to_host_port(as_sockaddr(one.address)).host;
    if (wanted.contains(as_sockaddr(one.address))) return host;
    there += (there.empty() ? "" : ", ") + one.name + " " + host;
  }
  refuse("--interface", "no interface of this machine is in this network", cidr, "one of: " + there);
}

std::string advertised_address(const std::string& listening, const std::string& advertise, const std::string& interface_cidr) {
  const HostPort real = parse_host_port(listening);
  if (!advertise.empty()) {
    const bool bare = advertise.find(':') == std::string::npos && advertise.find_first_not_of("0123456789") != std::string::npos;
    HostPort told = bare ? HostPort{advertise, 0} : parse_host_port(advertise, "--advertise");
    if (told.host.empty()) refuse("--advertise", "others need a host to connect to", advertise, "HOST:PORT");
    if (told.port == 0) told.port = real.port;
    return told.text();
  }
  if (!interface_cidr.empty()) return HostPort{local_address_in(interface_cidr), real.port}.text();
  sockaddr_storage address;
  if (!numeric_address(real, &address) || !is_any(as_sockaddr(address))) return listening;
  const Interface* best = nullptr;
  const auto all = interfaces();
  for (const Interface& one : all) {
    const auto* at = as_sockaddr(one.address);
    const bool link_local = at->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(at)->sin6_addr);
    if (is_loopback(at) || link_local) continue;
    if (!best || (best->address.ss_family == AF_INET6 && at->sa_family == AF_INET)) best = &one;
  }
  return HostPort{best ? to_host_port(as_sockaddr(best->address)).host : "127.0.0.1", real.port}.text();
}

bool on_loopback(const std::string& target) {
  const auto addresses = resolve(parse_host_port(target, "--join"));
  return !addresses.empty() && is_loopback(reinterpret_cast<const sockaddr*>(&addresses[0]));
}

std::string address_towards(const std::string& target) {
  for (const sockaddr_storage& each : resolve(parse_host_port(target, "--join"))) {
    const int probe = socket(each.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) continue;
    sockaddr_storage mine = {};
    socklen_t size = sizeof mine;
    const socklen_t length = each.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const bool found = connect(probe, reinterpret_cast<const sockaddr*>(&each), length) == 0 &&
                       getsockname(probe, reinterpret_cast<sockaddr*>(&mine), &size) == 0;
    close(probe);
    if (found) return to_host_port(reinterpret_cast<const sockaddr*>(&mine)).host;
  }
  return "";
}

}  // namespace perigee
