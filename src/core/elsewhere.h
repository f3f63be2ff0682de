// Names that Keras, PyTorch, scikit-learn and pandas have for things of ours, so that an error can tell what they are called here. It is no list
// of synonyms: nothing accepts them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

struct Elsewhere {
  std::string_view name;    // "batch_size": the case of letters and underscores do not matter
  std::string_view here;    // "batch" or "graph,sequential": the first that is known at the place is meant
  std::string_view advice;  // where none of them is known: how it is said here; may be empty
};

std::span<const Elsewhere> names_elsewhere();

// "did you mean 'kernel'?" for "kernel_size" where `known` has it; else empty.
std::string meant_elsewhere(std::string_view name, const std::vector<std::string>& known);
// The same, or how the thing is said here; empty for a name that is none of elsewhere. For names of options and functions, which the user did not
// choose.
std::string advice_elsewhere(std::string_view name, const std::vector<std::string>& known);

}  // namespace perigee
