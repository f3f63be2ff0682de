// etcd by the JSON gateway of its third version: keys, conditional writes, leases. Each call tries the members in turn, each within a
// deadline, and waits; what answers nonsense counts as gone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/json.h"

namespace perigee {

// etcd://[user:password@]HOST[:PORT],HOST[:PORT],.../PATH; etcds:// by TLS.
struct EtcdAddress {
  std::string text;                  // without the password
  std::vector<std::string> members;  // http://host:port
  std::string path;                  // "/perigee/lenet", without a slash at its end
  std::string user, password;
};
bool is_etcd_address(std::string_view text);
EtcdAddress parse_etcd_address(const std::string& text);  // Error(usage)

struct EtcdValue {
  std::string value;
  int64_t created = 0, modified = 0;  // revisions; 0: there is none
};

class EtcdClient {
 public:
  // TLS by PERIGEE_ETCD_CA, PERIGEE_ETCD_CERT, PERIGEE_ETCD_KEY (files); a user by the address or PERIGEE_ETCD_USER (name:password); or
  // PERIGEE_ETCD_TOKEN.
  explicit EtcdClient(EtcdAddress address, int64_t deadline_ms = 1000);
  const EtcdAddress& address() const { return address_; }

  // Error(resources) when no member answers, Error(authentication) when they refuse, as of all below.
  EtcdValue get(const std::string& key);
  std::vector<std::pair<std::string, EtcdValue>> list(const std::string& prefix);  // bounded
  void put(const std::string& key, const std::string& value);

  int64_t grant(int64_t seconds);     // a lease
  int64_t keep_alive(int64_t lease);  // the seconds that it lasts from now; 0: it is no more
  void revoke(int64_t lease);

  struct Condition {
    std::string key;
    bool of_creation = true;  // else of the last change
    int64_t revision = 0;
  };
  struct Write {
    std::string key, value;
    int64_t lease = 0;
  };
  // All writes where all conditions hold: the revision that they have; else nothing: 0.
  int64_t transact(const std::vector<Condition>& conditions, const std::vector<Write>& writes);

 private:
  Json call(const std::string& path, const Json& body);
  bool log_in();

  EtcdAddress address_;
  int64_t deadline_ms_;
  size_t member_ = 0;
  std::string token_, ca_, certificate_, key_;
};

// The value of the key that the address names. Error(usage) when there is none.
std::string text_in_etcd(const std::string& address);

}  // namespace perigee
