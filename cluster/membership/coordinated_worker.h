// One worker as the coordinator sees it: who it is, and what it has said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/protocol/transport.h"

namespace perigee {

struct CoordinatedWorker {
  enum class State : uint8_t { opening, waiting, forming, healing, training };

  WorkerId id = 0;
  std::string name, host, address, site;
  uint32_t pid = 0;   // on its host; 0: not known
  bool dead = false;  // its agent saw the process end
  PeerId peer = 0;
  State state = State::opening;
  uint64_t joined = 0;                              // in which order they came
  uint64_t heard_ns = 0, heal_ns = 0, told_ns = 0;  // told: the last Beat to it

  // Progress, from its Beats.
  int64_t step = -1, evaluated = 0;
  bool stepped = false;  // since it joined
  uint64_t stepped_ns = 0, beat_ns = 0;
  double step_s = 0;  // a smoothed mean
  double rate = 0, round_trip_ms = 0;
  uint64_t bytes_up = 0, bytes_down = 0;
  std::string waits_for;

  // Its messages in this generation.
  bool member = false, formed = false;
  bool stayed = false;  // a member of the generation before, too: its work was not given to others
  int heals = 0;        // that failed
  int64_t round = -1;
  uint64_t hash = 0;
  std::vector<Range> pending;
  int64_t base = -1;
  std::vector<LogEntry> log;
  int64_t kept_from = 0;  // as in Acknowledge
  std::vector<RedoRound> made;
  bool left_waiting = false;  // a member of the last generation, which ended without another

  // Rounds.
  std::vector<Range> leased;  // and in no committed round yet
  uint64_t leased_ns = 0;     // when it was last given some
  bool lease_last = false;
  int64_t lease_steps = 0;  // as it was told last
  int left_out = 0;         // contributions in a row
  bool spoiled = false;     // others refuse what it has staged
  std::optional<Ready> ready;
  std::optional<Ready> early;  // for the round after the open one, which it has finished already
  std::optional<Done> done;
  bool server = false;  // of a served policy
  int64_t staleness = 0;
  double share = 0;  // of the last round's examples
};

}  // namespace perigee
