// A FakeReplica's payloads in coded rounds: its sums exactly, as those that are not zero, so that lengths differ; and a few numbers
// through a real codec with error feedback, which must neither lose nor repeat anything, whatever becomes of the rounds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/codec/delta_codec.h"

namespace perigee::sim {

class FakePayloads {
 public:
  explicit FakePayloads(size_t sums);

  size_t bound() const;
  SharedBytes encode(std::span<const float> sums, int64_t examples, int64_t round);
  bool add(std::span<const std::byte> payload, std::span<float> sums, int64_t* examples);  // false: not a payload

  // As those of DeltaCodec.
  void settle(bool counted);
  void drop();
  void overtaken();
  // Work handed in for a result equals its part in the result plus the residual.
  bool conserved() const;

 private:
  bool add_lossy(std::span<const std::byte> payload, std::span<float> sum);
  void count_last();

  size_t sums_;
  DeltaCodec codec_;
  std::vector<float> handed_in_, sent_;            // counted
  std::vector<float> last_handed_in_, last_sent_;  // by the last payload
  bool pending_ = false, dropped_ = false;
};

}  // namespace perigee::sim
