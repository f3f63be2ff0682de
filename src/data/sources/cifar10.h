// CIFAR-10's binary records: see cifar10.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "src/data/source.h"

namespace perigee {

// Records of 1 + 3x32x32 bytes. Error(data) with `where` for an odd length or a label above 9. `owner` keeps `records` alive.
SourcePtr cifar10_source(std::span<const std::byte> records, std::shared_ptr<const void> owner, const std::string& where,
                         float scale = 1.f / 255);

}  // namespace perigee
