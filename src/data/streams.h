// Sources whose examples come in lanes: with n lanes, example i goes on where example i - n ended, so that batches of n examples in the source's
// own order are n texts that go on from batch to batch.
#pragma once

#include "src/data/source.h"

namespace perigee {

class StreamedSource {
 public:
  virtual ~StreamedSource() = default;
  virtual int64_t streams() const = 0;  // 0: examples stand alone
};

inline int64_t streams_of(const DataSource& source) {
  const auto* streamed = dynamic_cast<const StreamedSource*>(&source);
  return streamed != nullptr ? streamed->streams() : 0;
}

}  // namespace perigee
