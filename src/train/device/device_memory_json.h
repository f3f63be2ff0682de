// The planned memory of a device as JSON: bytes, by the names of its fields.
#pragma once

#include "src/core/json.h"
#include "src/train/device/device_memory.h"

namespace perigee {

Json to_json(const DeviceMemory& memory);
DeviceMemory device_memory_from(const Json& json);

}  // namespace perigee
