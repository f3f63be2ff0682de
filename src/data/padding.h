// Padding, as a job tells it, for transforms that measure their field.
#pragma once

#include "src/core/json.h"

namespace perigee {

// The description of a source whose transforms with the options "lengths" and "masks" have those of the job's `data` ("lengths": {"x": "n"}),
// unless they have their own.
Json with_padding(const Json& source, const Json& data);

}  // namespace perigee
