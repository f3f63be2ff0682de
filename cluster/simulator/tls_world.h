// A handful of encrypted connections over the simulated network: the real Tls and FrameReader, whose bytes are cut at any place and come
// one by one; keys that are right, another job's or unknown; and an attacker that changes, drops, repeats, swaps and adds records,
// cuts a connection at any byte or says again what he recorded of another one. By seed; the handshakes' own random numbers are OpenSSL's.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace perigee::sim {

struct TlsOutcome {
  std::string failure;                   // empty: everything held
  std::map<std::string, int64_t> sites;  // what was done, and what came of it: opened, refused, frames
  bool passed() const { return failure.empty(); }
};

TlsOutcome simulate_tls(uint64_t seed);

}  // namespace perigee::sim
