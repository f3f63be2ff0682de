// The parameter block cut into fragments, each with its own interval, phase, codec and outer step. In a round only the fragments that are due
// are exchanged; which those are is a function of the round's number, equal on every worker. In a row of the exchange the fragments lie one
// after the other, so that each is one range of bytes there, however it is spread over the block.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cluster/codec/codec.h"
#include "cluster/policy/policy.h"
#include "cluster/replica/replica.h"
#include "src/optim/param_window.h"

namespace perigee {

inline constexpr int64_t kMaxFragments = 64;

// Elements of the block, and where they stand in a row.
struct FragmentRun {
  int64_t block = 0, row = 0, elements = 0;
};

struct Fragment {
  std::string name;                    // "2 of 4", or the patterns that chose it
  std::vector<FragmentRun> runs;       // with the gaps between its parameters
  std::vector<FragmentRun> trainable;  // of those, what trains
  int64_t row = 0, elements = 0;       // of the row; a multiple of 64 bytes
  std::vector<CodecSegment> tensors;   // that train and are whole in it, and pieces of others; by elements of the row
  int64_t parameters = 0;              // without gaps
  int64_t interval = 1, phase = 0;     // in rounds: due when round % interval == phase
  Json codec;                          // null: as sums
  size_t outer = 0;                    // which of the plan's outer steps
  CodecSegment segment() const { return {.first = row, .count = elements, .tensors = tensors.data(), .tensor_count = tensors.size()}; }
  bool due(int64_t round, bool last) const { return last || round % interval == phase; }
};

class FragmentPlan {
 public:
  FragmentPlan() = default;  // of a policy that averages all at once
  // Error(model) where the policy does not fit the network: a pattern that matches nothing, more fragments than layers.
  FragmentPlan(const Policy& policy, std::span<const ParamWindow> windows, int64_t block_elements, const std::string& where);

  bool empty() const { return fragments_.empty(); }
  const std::vector<Fragment>& fragments() const { return fragments_; }
  const std::vector<OuterProgram>& outers() const { return outers_; }
  // The protocol's view of them; rows are of elements of `width` bytes.
  std::vector<FragmentPart> parts(size_t width) const;

 private:
  void take(Fragment fragment, std::vector<FragmentRun> runs, std::span<const ParamWindow> windows);

  std::vector<Fragment> fragments_;
  std::vector<OuterProgram> outers_;
};

}  // namespace perigee
