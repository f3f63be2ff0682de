// {"type": "take", "source": {...}, "count": 1000, "from": 0}: neighbouring examples.
#include <algorithm>

#include "src/data/indexed_source.h"

namespace perigee {
namespace {

SourcePtr open_take(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  const int64_t from = config.integer_in("from", 0, inner->size() - 1, 0);
  const int64_t count = std::min(config.integer_in("count", 1, INT64_MAX), inner->size() - from);
  return std::make_shared<IndexedSource>("take", inner, count, [from](int64_t i) { return from + i; });
}

constexpr Option kTakeOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                                   {"count", "integer", nullptr, "how many examples", {1}},
                                   {"from", "integer", "0", "number of the first", {0}}};

}  // namespace

extern const SourceDef source_take;
const SourceDef source_take{.type = "take",
                            .doc = "'count' examples of 'source', beginning with number 'from' (0); fewer when it has no more",
                            .schema = {.options = kTakeOptions},
                            .open = open_take,
                            .wraps = true};

}  // namespace perigee
