#include "src/train/device/device_memory_json.h"

#include <utility>

namespace perigee {
namespace {

constexpr std::pair<const char*, size_t DeviceMemory::*> kParts[] = {
    {"parameters", &DeviceMemory::parameters}, {"states", &DeviceMemory::states},
    {"gradients", &DeviceMemory::gradients},   {"optimizer", &DeviceMemory::optimizer},
    {"average", &DeviceMemory::average},       {"training", &DeviceMemory::training},
    {"evaluation", &DeviceMemory::evaluation}, {"constants", &DeviceMemory::constants},
    {"batches", &DeviceMemory::batches},       {"sums", &DeviceMemory::sums},
    {"data_set", &DeviceMemory::data_set},     {"replica", &DeviceMemory::replica},
    {"pinned", &DeviceMemory::pinned}};

}  // namespace

Json to_json(const DeviceMemory& memory) {
  Json json = Json::object();
  for (const auto& [name, part] : kParts) json.set(name, static_cast<int64_t>(memory.*part));
  return json;
}

DeviceMemory device_memory_from(const Json& json) {
  DeviceMemory memory;
  for (const auto& [name, part] : kParts) memory.*part = static_cast<size_t>(json.find(name)->as_int());
  return memory;
}

}  // namespace perigee
