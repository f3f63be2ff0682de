#include "src/net/admission.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace perigee {

// The first 64 bits of an IPv6 address: a peer with one address has all the others of that network.
Admission::Key Admission::key_of(const sockaddr* address) {
  Key key{};
  if (address->sa_family == AF_INET) std::memcpy(key.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  if (address->sa_family != AF_INET6) return key;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) std::memcpy(key.data(), v6.s6_addr + 12, 4);
  else std::memcpy(key.data() + 8, v6.s6_addr, 8);
  return key;
}

double Admission::level(const Record& record, uint64_t now_ns) const {
  const double passed_s = now_ns > record.at_ns ? static_cast<double>(now_ns - record.at_ns) * 1e-9 : 0;
  return std::max(0.0, record.failures - passed_s * forgiven_per_s_);
}

bool Admission::trusted(const Key& key, uint64_t now_ns) const {
  const auto found = proved_ns_.find(key);
  return found != proved_ns_.end() && now_ns - found->second < kTrustedNs;
}

bool Admission::shut_out(const sockaddr* address, uint64_t now_ns) const {
  const Key key = key_of(address);
  const auto found = records_.find(key);
  return found != records_.end() && level(found->second, now_ns) >= failures_ && !trusted(key, now_ns);
}

void Admission::failed(const sockaddr* address, uint64_t now_ns) {
  const Key key = key_of(address);
  if (records_.size() >= kMaxAddresses && !records_.contains(key)) {
    const auto less = [&](const auto& a, const auto& b) { return level(a.second, now_ns) < level(b.second, now_ns); };
    records_.erase(std::min_element(records_.begin(), records_.end(), less));
  }
  Record& record = records_[key];
  record = {.failures = std::min(level(record, now_ns) + 1, 2.0 * failures_), .at_ns = now_ns};
}

void Admission::succeeded(const sockaddr* address, uint64_t now_ns) {
  const Key key = key_of(address);
  records_.erase(key);
  if (proved_ns_.size() >= kMaxAddresses && !proved_ns_.contains(key))
    proved_ns_.erase(std::min_element(proved_ns_.begin(), proved_ns_.end(), [](auto& a, auto& b) { return a.second < b.second; }));
  proved_ns_[key] = now_ns;
}

}  // namespace perigee
