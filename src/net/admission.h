// Which addresses may try again: one that failed to authenticate too often is shut out until that is forgotten. An address from which
// a peer has authenticated is not: a stranger there must not keep that peer from coming back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

struct sockaddr;

namespace perigee {

class Admission {
 public:
  static constexpr size_t kMaxAddresses = 1024;  // remembered of each kind; then the least guilty, or who came longest ago, is forgotten
  static constexpr uint64_t kTrustedNs = 3'600'000'000'000;

  Admission(int failures, double forgiven_per_s) : failures_(failures), forgiven_per_s_(forgiven_per_s) {}
  bool shut_out(const sockaddr* address, uint64_t now_ns) const;
  void failed(const sockaddr* address, uint64_t now_ns);
  void succeeded(const sockaddr* address, uint64_t now_ns);

 private:
  struct Record {
    double failures = 0;
    uint64_t at_ns = 0;
  };
  using Key = std::array<uint8_t, 16>;
  static Key key_of(const sockaddr* address);
  double level(const Record& record, uint64_t now_ns) const;
  bool trusted(const Key& key, uint64_t now_ns) const;

  int failures_;
  double forgiven_per_s_;
  std::map<Key, Record> records_;
  std::map<Key, uint64_t> proved_ns_;  // when a peer last authenticated there
};

}  // namespace perigee
