// An example as people look at it: an image as a PNG file in a URL, a row of a table by the names of its columns, else its first numbers.
#pragma once

#include <span>
#include <string>

#include "src/core/json.h"
#include "src/data/source.h"

namespace perigee {

// {"image": "data:image/png;base64,...", "width", "height"}, {"columns": {name: number or text}} or {"values": [numbers]}: field `name` of
// example `index`, read as in epoch 0. A row is told as it was in the table where the source says what it fitted.
Json shown_example(const DataSource& source, const std::string& name, int64_t index);

// The bytes of that PNG file; empty: the field is no image.
std::string example_png(const DataSource& source, const std::string& name, int64_t index);

// The columns of a table of which `x` is an example, by what its source fitted (SourceTraits::fitted); null where that does not fit.
Json table_row(const Json& fitted, std::span<const float> x);

}  // namespace perigee
