// Constraints that parameters satisfy after each update, after Deeplearning4j: one object or a list of
//   {"type": "max_norm", "max": 2.0}                       vectors longer than max are shortened to it
//   {"type": "min_max_norm", "min": 0, "max": 1, "rate": 1}  lengths are moved by `rate` of the way into [min, max]
//   {"type": "unit_norm"}                                  vectors of length 1
//   {"type": "non_negative"}                               negative elements become 0
// "dims": the dimensions that make up a vector; by default all but the first: the weights into one output. "on": "weights" (the
// default), "bias" or "all".
#pragma once

#include <string>
#include <vector>

#include "kernels/block_math.h"
#include "src/core/schema.h"
#include "src/optim/param_window.h"

namespace perigee {

std::span<const NamedSchema> constraint_kinds();

class Constraints {
 public:
  enum class Kind { min_max, non_negative };
  struct Rule {
    int window = 0;
    Kind kind = Kind::min_max;
    double min = 0, max = 0, rate = 1;
    std::vector<int64_t> starts;   // offsets of the vectors in the block
    std::vector<int64_t> members;  // offsets of a vector's elements from its start
  };

  // Throws Error(model). `description` is the job's; a window's own replaces it.
  Constraints(const Json& description, const std::vector<ParamWindow>& windows, const std::string& where);

  bool empty() const { return rules_.empty(); }
  const std::vector<Rule>& rules() const { return rules_; }  // in the order in which those of one window count
  // Part `part` of `parts`: by any threads at the same time.
  void apply(int part, int parts, void* parameters, const BlockMath& math) const;

 private:
  void read(const Json& description, int index, const ParamWindow& window, const std::string& where);
  static void apply_rule(const Rule& rule, void* parameters, const BlockMath& math);

  std::vector<Rule> rules_;
};

}  // namespace perigee
