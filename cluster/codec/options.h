// The options that all codecs share, and lists of options joined.
#pragma once

#include <array>

#include "cluster/codec/codec.h"

namespace perigee {

template <size_t... N>
constexpr auto join_options(const std::array<Option, N>&... lists) {
  std::array<Option, (N + ...)> all;
  size_t at = 0;
  const auto append = [&](const auto& list) {
    for (const Option& option : list) all[at++] = option;
  };
  (append(lists), ...);
  return all;
}

// `feedback` is on by default where a codec loses much of what it is given.
constexpr std::array<Option, 5> common_options(const char* feedback) {
  return {{
      {"feedback", "boolean", feedback, "what was lost is added to the next values"},
      {"decay", "number", "1", "share of what was lost that is kept", {0, 1}},
      {"momentum",
       "number",
       "0",
       "what is encoded is momentum times what was before, plus the values (DGC's correction, Signum)",
       {0, 0.9999}},
      {"clip_norm", "number", "0", "limits the values' norm to this over the root of the number of workers; 0: no limit", {0, 1e12}},
      {"zstd", "integer", "0", "level at which the bytes are compressed once more; 0: they are not", {0, 19}},
  }};
}

}  // namespace perigee
