// "host:port" as people write it, and which of a machine's addresses others are to use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct sockaddr;
struct sockaddr_storage;

namespace perigee {

struct HostPort {
  std::string host;  // a name or a number without brackets; empty: all interfaces
  uint16_t port = 0;
  std::string text() const;  // with brackets where needed
  bool operator==(const HostPort&) const = default;
};

// "host:port", "10.0.0.1:7700", "[::1]:7700", ":7700", "7700". Error(usage) that names `where` ("--listen") otherwise.
HostPort parse_host_port(std::string_view text, std::string_view where = "");

// A number ("10.0.0.1", "fe80::1") with `port`; false for a name.
bool numeric_address(const HostPort& address, sockaddr_storage* out);
// Looks the name up; waits. Error(usage) for an unknown one. An empty host is every interface.
std::vector<sockaddr_storage> resolve(const HostPort& address);
// Where a listener for `wanted` binds: looks a name up; an empty host is every interface, IPv6 and IPv4.
sockaddr_storage address_to_listen(const HostPort& wanted);
HostPort to_host_port(const sockaddr* address);
bool is_loopback(const sockaddr* address);
bool is_any(const sockaddr* address);

std::string host_name();      // of this machine, for people
std::string host_identity();  // the name and what tells two machines of this name apart
// Whether `target` (host:port) is this machine, by its loopback interface.
bool on_loopback(const std::string& target);
// The address of this machine from which `target` is reached: where others of the same network reach this one. Nothing is sent. Empty
// when there is no way.
std::string address_towards(const std::string& target);

// "10.0.0.0/16", "fd00::/8". Error(usage) that names `where` otherwise.
struct Cidr {
  uint8_t bytes[16] = {};
  int family = 0;
  int bits = 0;
  bool contains(const sockaddr* address) const;
};
Cidr parse_cidr(std::string_view text, std::string_view where = "");

// The address of one of this machine's interfaces within `cidr`; Error(usage) that lists what there is when none is.
std::string local_address_in(std::string_view cidr);
// The address to tell others: `advertise` when given (without a port: the real one), else the address within `interface_cidr`, else
// `listening`, and when that is every interface, the machine's first address that is not loopback.
std::string advertised_address(const std::string& listening, const std::string& advertise, const std::string& interface_cidr);

}  // namespace perigee
