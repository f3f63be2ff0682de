// The part of `perigee describe` that says what a job takes: on a GPU, by name; and what computing activations again would save.
#pragma once

#include <string>

namespace perigee {

class Trainer;

// `device`: "cuda", "cpu", ...; `why` there is no GPU, or empty.
void describe_memory(Trainer& trainer, const std::string& device, const std::string& why);

}  // namespace perigee
