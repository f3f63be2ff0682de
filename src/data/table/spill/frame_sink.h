// Takes a table chunk by chunk, and gives what it makes of it to the next one.
#pragma once

#include <functional>
#include <utility>

#include "src/data/table/frame.h"

namespace perigee::tables {

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual void add(Frame&& frame) = 0;
  // After the last chunk; what follows is finished by the caller.
  virtual void finish() = 0;
};

using UseFrame = std::function<void(Frame&&)>;

// Columns of a step's own beside those of the table: a name that no file can give, since names there are texts without zeros.
inline std::string hidden_name(const char* name) { return std::string(1, '\0') + name; }

}  // namespace perigee::tables
