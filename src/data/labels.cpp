#include "src/data/labels.h"

#include <cstddef>
#include <cstring>

#include "src/data/transform.h"

namespace perigee {

size_t label_field(const DataSource& source, const Config& config, const std::string& name) {
  if (source.traits().live)
    config.fail("source", "gives examples while the program runs, which cannot be sorted", source.traits().description,
                "a source that is there whole");
  const size_t field = field_index(source, name, config.where() + ": field");
  if (source.fields()[field].classes == 0)
    config.fail("field", "is no label", "'" + name + "', " + dtype_name(source.fields()[field].dtype), "a field with the number of a class",
                "transforms such as one_hot come after it: source:balanced {}:map { pg.transform.one_hot {} }");
  return field;
}

void check_label(int64_t label, int64_t classes, const char* where) {
  if (label < 0 || label >= classes)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "a label is out of range",
                                  .got = std::to_string(label),
                                  .expected = "0 to " + std::to_string(classes - 1)});
}

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

}  // namespace perigee
