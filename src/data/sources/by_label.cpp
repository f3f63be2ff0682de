// {"type": "by_label", "source": {...}, "field": "y"}: the examples of another source in the order of their labels, those of a label in the
// order that they had. It reads every example once when it is opened.
#include <algorithm>

#include "src/data/indexed_source.h"
#include "src/data/labels.h"
#include "src/data/transform.h"

namespace perigee {
namespace {

SourcePtr open_by_label(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  const size_t field = label_field(*inner, config, config.string("field", "y"));
  const std::vector<int64_t> labels = labels_of(*inner, field);
  auto order = std::make_shared<std::vector<int64_t>>(labels.size());
  for (size_t i = 0; i < order->size(); ++i) (*order)[i] = static_cast<int64_t>(i);
  std::stable_sort(order->begin(), order->end(),
                   [&](int64_t a, int64_t b) { return labels[static_cast<size_t>(a)] < labels[static_cast<size_t>(b)]; });
  return std::make_shared<IndexedSource>("by label", inner, inner->size(), [order](int64_t i) { return (*order)[static_cast<size_t>(i)]; });
}

constexpr const char* kByLabelPositional[] = {"source"};
constexpr Option kByLabelOptions[] = {{"source", "source", nullptr, "where the examples come from"}, {"field", "string", "y", "the label"}};

}  // namespace

extern const SourceDef source_by_label;
// It reads data itself, so where the coordinator serves the examples it is opened there, and no worker asks for all of them.
const SourceDef source_by_label{.type = "by_label",
                                .doc = "The examples of 'source' in the order of their labels. Options: field (y)",
                                .schema = {.options = kByLabelOptions, .positional = kByLabelPositional},
                                .open = open_by_label,
                                .wraps = false};

}  // namespace perigee
