// {"type": "split", "source": {...}, "parts": [0.8, 0.2], "part": 0, "seed": 0}: disjoint shares that together are everything.
#include <algorithm>
#include <cmath>

#include "src/data/indexed_source.h"
#include "src/data/loader.h"

namespace perigee {
namespace {

// The shares' borders are rounded, not their sizes, so that nothing is lost between them.
std::vector<int64_t> borders(const Config& config, int64_t size) {
  const Json* parts = config.raw("parts");
  if (parts == nullptr || !parts->is_array() || parts->as_array().empty()) config.fail("parts", "must list the shares", "", "[0.8, 0.2]");
  std::vector<int64_t> at{0};
  double sum = 0;
  for (const Json& part : parts->as_array()) {
    if (!part.is_number() || !(part.as_number() > 0 && part.as_number() <= 1))
      config.fail("parts", "has a share that is none", part.dump(), "a number above 0 and at most 1");
    sum += part.as_number();
    if (sum > 1 + 1e-9) config.fail("parts", "has shares that are more than the whole", Json(sum).dump(), "a sum of at most 1");
    at.push_back(std::min(size, static_cast<int64_t>(std::llround(sum * static_cast<double>(size)))));
  }
  return at;
}

SourcePtr open_split_source(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  const int64_t size = inner->size();
  const std::vector<int64_t> at = borders(config, size);
  const auto part = static_cast<size_t>(config.integer_in("part", 0, static_cast<int64_t>(at.size()) - 2));
  const auto seed = static_cast<uint64_t>(config.integer("seed"));
  const bool shuffle = config.boolean("shuffle");
  const int64_t from = at[part];
  return std::make_shared<IndexedSource>("part " + std::to_string(part), inner, at[part + 1] - from,
                                         [=](int64_t i) { return shuffle ? shuffled_index(seed, 0, from + i, size) : from + i; });
}

constexpr Option kSplitOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                                    {"parts", "list of numbers", nullptr, "shares of the whole"},
                                    {"part", "integer", nullptr, "which, from 0", {0}},
                                    {"shuffle", "boolean", "true", "before they are cut"},
                                    {"seed", "integer", "0", "of the shuffle"}};

}  // namespace

extern const SourceDef source_split;
const SourceDef source_split{.type = "split",
                             .doc = "Share number 'part' of 'source', cut as 'parts' says ([0.8, 0.2]). Options: shuffle (true), seed (0)",
                             .schema = {.options = kSplitOptions},
                             .open = open_split_source,
                             .wraps = true};

}  // namespace perigee
