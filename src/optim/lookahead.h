// Lookahead (Zhang et al., "Lookahead optimizer: k steps forward, 1 step back", NeurIPS 2019): slow weights follow those that a rule moves. Every k
// updates they move a share of the way to them, and the rule goes on from there.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/view.h"
#include "src/core/json.h"
#include "src/core/schema.h"

namespace perigee {

inline constexpr const char* kSlowWeights = "slow";  // the state's name

extern const Schema lookahead_schema;

class Lookahead {
 public:
  Lookahead() = default;                                         // there is none
  Lookahead(const Json& description, const std::string& where);  // null: none. Error(model)

  bool active() const { return every_ > 0; }
  // Around the update of number `t`, from 1, of `n` elements: the slow weights begin as the first update finds the others.
  void before(int64_t t, int64_t n, const std::byte* fast, std::byte* slow, Dtype dtype) const;
  void after(int64_t t, int64_t n, std::byte* fast, std::byte* slow, Dtype dtype) const;

 private:
  int64_t every_ = 0;
  double share_ = 0;
};

}  // namespace perigee
