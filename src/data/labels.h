// The labels of a whole source, for sources that put its examples in an order of classes.
#pragma once

#include <cstddef>
#include <vector>

#include "src/data/source.h"

namespace perigee {

// Field number of `name`. Error(data) at `config` when it is no label, or when the source gives examples while the program runs.
size_t label_field(const DataSource& source, const Config& config, const std::string& name);
// Error(data) unless 0 <= label < classes.
void check_label(int64_t label, int64_t classes, const char* where);
// Reads every example once.
std::vector<int64_t> labels_of(const DataSource& source, size_t field);

}  // namespace perigee
