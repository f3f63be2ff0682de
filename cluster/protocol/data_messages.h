// Examples from the coordinator (data.at = "coordinator").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/protocol/frame.h"

namespace perigee {

// A worker asks for examples. They come in this order; what it asks for later comes later.
struct Read {
  static constexpr MessageType kType = MessageType::read;
  uint64_t request = 0;  // the worker's number for it, never twice on a connection
  uint32_t source = 0;   // of those that Welcome names
  uint64_t epoch = 0, seed = 0;
  std::vector<int64_t> ids;  // indices in the source
  template <class F>
  void fields(F& f) {
    f(request), f(source), f(epoch), f(seed), f(ids);
  }
};

// Part of the answer; its bytes follow the struct. All examples of the request are one row of records (data/record.h), in the order that
// was asked for, and their bytes come in order. With an error: the record that begins at `offset` cannot be read; that is said before
// its bytes, which come all the same and mean nothing.
struct Examples {
  static constexpr MessageType kType = MessageType::examples;
  uint64_t request = 0;
  uint64_t offset = 0;
  uint16_t kind = 0;  // ErrorKind; 0: no error
  std::string error;
  template <class F>
  void fields(F& f) {
    f(request), f(offset), f(kind), f(error);
  }
};

#define PERIGEE_DATA_MESSAGES(X) X(Read) X(Examples)

}  // namespace perigee
