// Handwritten-looking digits drawn from strokes, for machines without a data set and for tests: see digits.cpp.
#pragma once

#include <string>

#include "src/data/source.h"

namespace perigee {

struct DigitsOptions {
  int64_t size = 60000;  // examples in one epoch
  uint64_t seed = 1;
  bool endless = false;  // draw other digits in every epoch
  float scale = 1;       // of the pixels, which are 0 to 1
};

SourcePtr open_digits(const DigitsOptions& options, const std::string& name);

}  // namespace perigee
