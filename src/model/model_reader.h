// Reading model files and checkpoints of this and of earlier versions.
#pragma once

#include <span>
#include <string>

#include "src/io/safetensors.h"

namespace perigee {

// The file's tensors under the names of today: a batch norm's "mean_square" of an earlier version becomes its "variance".
Safetensors parse_model_file(std::span<const std::byte> bytes, const std::string& where);
Safetensors read_model_file(const std::string& path);

}  // namespace perigee
