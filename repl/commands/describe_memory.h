// The part of `perigee describe` that says what a job takes: on a GPU, by name; and what computing activations again would save.
#pragma once

#include <cstdint>
#include <string>

namespace perigee {

class Trainer;

// `device`: "cuda", "cpu", ...; `why` there is no GPU, or empty; `gpus`: how many one process trains on.
void describe_memory(Trainer& trainer, const std::string& device, const std::string& why, int64_t gpus);

}  // namespace perigee
