// {"type": "subset", "source": {...}, "indices": [3, 1, 4]}: the examples that are listed, in that order.
#include "src/data/indexed_source.h"

namespace perigee {
namespace {

SourcePtr open_subset(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  auto indices = std::make_shared<const std::vector<int64_t>>(config.integer_list("indices"));
  for (const int64_t index : *indices)
    if (index < 0 || index >= inner->size())
      config.fail("indices", "names an example that is not there", std::to_string(index), "0 to " + std::to_string(inner->size() - 1));
  const auto size = static_cast<int64_t>(indices->size());
  return std::make_shared<IndexedSource>("subset", inner, size, [indices](int64_t i) { return (*indices)[static_cast<size_t>(i)]; });
}

constexpr Option kSubsetOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                                     {"indices", "list of integers", nullptr, "numbers of the examples, from 0"}};

}  // namespace

extern const SourceDef source_subset;
const SourceDef source_subset{.type = "subset",
                              .doc = "The examples of 'source' whose numbers are in 'indices'",
                              .schema = {.options = kSubsetOptions},
                              .open = open_subset,
                              .wraps = true};

}  // namespace perigee
