// Each file in src/graph/ops/ defines one `const OpList ops_<file>`; the build makes the table.
#pragma once

#include "src/graph/op.h"

namespace perigee {

struct OpList {
  const OpDef* first = nullptr;
  size_t count = 0;
};

template <size_t N>
constexpr OpList op_list(const OpDef (&ops)[N]) {
  return {ops, N};
}

std::span<const OpList* const> op_lists();

}  // namespace perigee
