// {"type": "by_label", "source": {...}, "field": "y"}: the examples of another source in the order of their labels, those of a label in the
// order that they had. It reads every example once when it is opened.
#include <algorithm>
#include <cstring>

#include "src/data/indexed_source.h"
#include "src/data/transform.h"

namespace perigee {
namespace {

std::vector<int64_t> labels_of(const DataSource& source, size_t field) {
  std::vector<std::vector<std::byte>> example;
  std::vector<std::byte*> slots;
  for (const Field& f : source.fields()) {
    example.emplace_back(static_cast<size_t>(f.shape.elements()) * dtype_bytes(f.dtype));
    slots.push_back(example.back().data());
  }
  std::vector<int64_t> labels(static_cast<size_t>(source.size()));
  for (size_t i = 0; i < labels.size(); ++i) {
    source.read({.index = static_cast<int64_t>(i)}, slots);
    std::memcpy(&labels[i], slots[field], sizeof labels[i]);
  }
  return labels;
}

SourcePtr open(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  if (inner->traits().live)
    config.fail("source", "gives examples while the program runs, which cannot be sorted", inner->traits().description,
                "a source that is there whole");
  const std::string name = config.string("field", "y");
  const auto field = static_cast<size_t>(field_index(*inner, name, config.where() + ": field"));
  if (inner->fields()[field].classes == 0)
    config.fail("field", "is no label", "'" + name + "', " + dtype_name(inner->fields()[field].dtype),
                "a field with the number of a class");
  const std::vector<int64_t> labels = labels_of(*inner, field);
  auto order = std::make_shared<std::vector<int64_t>>(labels.size());
  for (size_t i = 0; i < order->size(); ++i) (*order)[i] = static_cast<int64_t>(i);
  std::stable_sort(order->begin(), order->end(),
                   [&](int64_t a, int64_t b) { return labels[static_cast<size_t>(a)] < labels[static_cast<size_t>(b)]; });
  return std::make_shared<IndexedSource>("by label", inner, inner->size(), [order](int64_t i) { return (*order)[static_cast<size_t>(i)]; });
}

constexpr const char* kPositional[] = {"source"};
constexpr Option kOptions[] = {{"source", "source", nullptr, "where the examples come from"}, {"field", "string", "y", "the label"}};

}  // namespace

extern const SourceDef source_by_label;
// It reads data itself, so where the coordinator serves the examples it is opened there, and no worker asks for all of them.
const SourceDef source_by_label{.type = "by_label",
                                .doc = "The examples of 'source' in the order of their labels. Options: field (y)",
                                .schema = {.options = kOptions, .positional = kPositional},
                                .open = open,
                                .wraps = false};

}  // namespace perigee
