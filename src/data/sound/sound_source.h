// Recordings as examples: x [channels, steps], n of them there, y the class. Other parts of the same data get rate, steps and classes by fitted().
#pragma once

#include <span>
#include <string>

#include "src/data/source.h"

namespace perigee {

// One recording without a class, read by the options of the source "audio" and what was fitted.
SourcePtr sound_source(const Config& config, std::span<const std::byte> bytes, const std::string& name);

}  // namespace perigee
