#include "src/data/fingerprint.h"

#include <algorithm>

#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr int64_t kFingerprintSamples = 64;

std::string fingerprint_text_of(const Field& field) {
  std::string text = field.name + "|" + dtype_name(field.dtype) + "|" + std::to_string(field.classes);
  for (int64_t dim : field.shape.vector()) text += "," + std::to_string(dim);
  for (const std::string& name : field.class_names) text += "|" + name;
  return text + "\n";
}

}  // namespace

uint64_t fingerprint(const DataSource& source, uint64_t seed, bool full) {
  std::string head = std::to_string(source.size()) + "\n";
  std::vector<std::vector<std::byte>> values;
  std::vector<std::byte*> slots;
  for (const Field& field : source.fields()) {
    head += fingerprint_text_of(field);
    values.emplace_back(static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype));
    slots.push_back(values.back().data());
  }
  uint64_t hash = xxh3_64(as_bytes(head));
  if (source.traits().live) return hash;  // there is nothing to read yet
  const int64_t count = full ? source.size() : std::min(kFingerprintSamples, source.size());
  for (int64_t i = 0; i < count; ++i) {
    source.read({.index = full ? i : i * (source.size() / count), .epoch = 0, .seed = seed}, slots);
    for (const auto& bytes : values) hash = xxh3_64(bytes, hash);
  }
  return hash;
}

}  // namespace perigee
