// Judges whom the coordinator believes where a replica has applied a wrong result: most of those who said what they hold. Where as many said
// the one as the other nobody can tell which is right (PROTOCOL.md, Commit), and the run may go on with either.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace perigee::sim {

class ResultOracle {
 public:
  // A replica came to a result, and the fault made it wrong. Before the worker says so.
  void applied_wrongly(int64_t round, uint64_t hash);
  // The coordinator has heard it of a worker; `life` tells a process from one that was started in its place.
  void heard(int who, uint64_t life, int64_t round, uint64_t hash) { votes_[{round, hash}].insert({who, life}); }
  // A worker that holds `hash` after `round` is told to load what others hold. Why that is not right; empty: it is, or may be.
  std::string told_to_load(int64_t round, uint64_t hash) const;

 private:
  size_t votes(int64_t round, uint64_t hash) const;

  int64_t round_ = -1;
  uint64_t wrong_ = 0;
  std::map<std::pair<int64_t, uint64_t>, std::set<std::pair<int, uint64_t>>> votes_;
};

}  // namespace perigee::sim
