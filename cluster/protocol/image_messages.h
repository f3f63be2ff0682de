// Images of a result: a file of parameters and states, in pieces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/frame.h"
#include "cluster/protocol/records.h"

namespace perigee {

struct Fetch {
  static constexpr MessageType kType = MessageType::fetch;
  WorkerId from = 0;
  uint64_t request = 0;
  template <class F>
  void fields(F& f) {
    f(from), f(request);
  }
};

// Part of an image (a .safetensors file); the bytes follow the struct. `total` 0: it cannot be had, `why` says why.
struct Image {
  static constexpr MessageType kType = MessageType::image;
  uint64_t request = 0;
  uint64_t offset = 0, total = 0;
  int64_t round = -1;
  uint64_t hash = 0;
  std::string why;
  std::vector<LogEntry> log;  // with offset 0: the donor's, which the healed one must remember as well
  template <class F>
  void fields(F& f) {
    f(request), f(offset), f(total), f(round), f(hash), f(why), f(log);
  }
};

// Send an image of the result held, at the next step border: a checkpoint ("checkpoint") or a model ("model").
struct Snapshot {
  static constexpr MessageType kType = MessageType::snapshot;
  uint64_t request = 0;
  std::string what;
  template <class F>
  void fields(F& f) {
    f(request), f(what);
  }
};

#define PERIGEE_IMAGE_MESSAGES(X) X(Fetch) X(Image) X(Snapshot)

}  // namespace perigee
